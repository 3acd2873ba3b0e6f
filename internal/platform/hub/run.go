package hub

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// missedHeartbeats is after how many heartbeats a replica counts as dead.
	missedHeartbeats = 3
	// refreshHeartbeats is how often an unchanged connection is written
	// again, in heartbeats. The entry is stale after missedHeartbeats of
	// these.
	refreshHeartbeats = 12
	// recheckConcurrency is how many tokens are verified concurrently.
	recheckConcurrency = 8
)

// oldest returns the timestamp before which a connection entry is stale.
func (h *Hub) oldest() time.Time {
	return time.Now().Add(-missedHeartbeats * refreshHeartbeats * h.options.Timing.HeartbeatInterval)
}

// Run publishes this replica to the others, watches for revocations, and
// drains the agents when the context is done. The HTTP servers of the
// handlers must be stopped after it, or draining agents would be cut off.
func (h *Hub) Run(ctx context.Context) error {
	if err := h.options.Directory.DeleteConnections(ctx, h.options.ReplicaID); err != nil {
		h.options.Log.Warn("deleting stale directory entries of this replica failed", observe.KeyError, err)
	}
	// The directory is written until the last agent has moved.
	writeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { h.heartbeatLoop(writeCtx) })
	loops.Go(func() { h.writeConnections(writeCtx) })
	loops.Go(func() { h.followChanges(writeCtx) })
	loops.Go(func() { h.recheckLoop(writeCtx) })
	<-ctx.Done()
	h.drain()
	stop()
	loops.Wait()
	h.active.Wait()
	h.peers.CloseIdleConnections()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.options.Timing.HeartbeatInterval)
	defer cancel()
	if err := h.options.Directory.DeleteReplica(last, h.options.ReplicaID); err != nil {
		h.options.Log.Warn("deleting this replica from the directory failed; other replicas drop it after missed heartbeats", observe.KeyError, err)
	}
	return ctx.Err()
}

// heartbeatLoop renews this replica's entry and reads those of the others. It
// also drives the periodic work: refreshing connection entries and verifying
// all tokens.
func (h *Hub) heartbeatLoop(ctx context.Context) {
	ticker := time.NewTicker(h.options.Timing.HeartbeatInterval)
	defer ticker.Stop()
	for heartbeats := 1; ; heartbeats++ {
		if err := h.heartbeat(ctx); err != nil && ctx.Err() == nil {
			h.options.Log.Warn("heartbeat failed; using the last known replicas", observe.KeyError, err)
		}
		if heartbeats%refreshHeartbeats == 0 {
			h.markAllDirty()
		}
		if heartbeats%h.recheckHeartbeats() == 0 {
			h.scheduleRecheckAll()
		}
		// Retries the entries that could not be written.
		wake(h.writeWake)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// recheckHeartbeats returns the number of heartbeats between two checks of
// all tokens.
func (h *Hub) recheckHeartbeats() int {
	return max(1, int(h.options.Timing.Recheck/h.options.Timing.HeartbeatInterval))
}

// heartbeat writes this replica's entry and reads the live replicas. On an
// error the previous list stays in use.
func (h *Hub) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.options.Timing.HeartbeatInterval)
	defer cancel()
	now := time.Now()
	self := h.self()
	self.SeenAt = now
	if err := h.options.Directory.PutReplica(ctx, self); err != nil {
		return err
	}
	live, err := h.options.Directory.Replicas(ctx, now.Add(-missedHeartbeats*h.options.Timing.HeartbeatInterval))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(live, func(r store.Replica) bool { return r.ID == self.ID }) {
		live = append(live, self)
	}
	h.liveReplicas.Store(&live)
	return nil
}

// markAllDirty queues every runtime for the directory.
func (h *Hub) markAllDirty() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.runtimes {
		h.dirtyRuntimes[id] = true
	}
}

// writeConnections writes queued runtimes to the directory. It stops at the
// first error; the next heartbeat wakes it for a retry.
func (h *Hub) writeConnections(ctx context.Context) {
	for {
		select {
		case <-h.writeWake:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		batch := slices.Collect(maps.Keys(h.dirtyRuntimes))
		h.mu.Unlock()
		for _, id := range batch {
			if err := h.writeConnection(ctx, id); err != nil {
				if ctx.Err() == nil {
					h.options.Log.Warn("writing a connection to the directory failed; retrying", observe.KeyError, err)
				}
				break
			}
		}
	}
}

// writeConnection writes the number of connections of one runtime. The
// runtime leaves the queue before the count is read, so a concurrent change
// queues it again.
func (h *Hub) writeConnection(ctx context.Context, id string) error {
	h.mu.Lock()
	delete(h.dirtyRuntimes, id)
	count := 0
	if r := h.runtimes[id]; r != nil && !h.draining {
		count = len(r.connections)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.options.Timing.HeartbeatInterval)
	defer cancel()
	err := h.options.Directory.PutConnection(ctx, store.Connection{
		RuntimeID: id, ReplicaID: h.options.ReplicaID, Count: count, SeenAt: time.Now(),
	})
	if err != nil {
		h.mu.Lock()
		h.dirtyRuntimes[id] = true
		h.mu.Unlock()
	}
	return err
}

// followChanges watches the store for revocations and changes of runtimes.
func (h *Hub) followChanges(ctx context.Context) {
	for ctx.Err() == nil {
		for change := range h.options.Directory.Changes(ctx) {
			switch change.Kind {
			case store.ChangeCredential, store.ChangeRuntime:
				h.scheduleRecheck(change.ID)
			case store.ChangeAll:
				h.scheduleRecheckAll()
			}
		}
		// The event stream of the store ended, so events may have been lost.
		h.scheduleRecheckAll()
		_ = backoff.Sleep(ctx, time.Second) // the loop ends with the context
	}
}

// scheduleRecheck queues the tokens of a runtime for verification.
func (h *Hub) scheduleRecheck(runtimeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rechecks.Add(1)
	if h.runtimes[runtimeID] != nil {
		h.recheckPending[runtimeID] = true
		wake(h.recheckWake)
	}
}

// scheduleRecheckAll queues all tokens for verification.
func (h *Hub) scheduleRecheckAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rechecks.Add(1)
	for id := range h.runtimes {
		h.recheckPending[id] = true
	}
	wake(h.recheckWake)
}

// recheckLoop verifies queued tokens, with bounded concurrency.
func (h *Hub) recheckLoop(ctx context.Context) {
	for {
		select {
		case <-h.recheckWake:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		var list []*connection
		for id := range h.recheckPending {
			if r := h.runtimes[id]; r != nil {
				list = append(list, r.connections...)
			}
		}
		clear(h.recheckPending)
		h.mu.Unlock()
		var checking sync.WaitGroup
		room := make(chan struct{}, recheckConcurrency)
		for _, c := range list {
			room <- struct{}{}
			checking.Go(func() {
				defer func() { <-room }()
				c.recheck()
			})
		}
		checking.Wait()
	}
}

// drain requests that agents move to other replicas, and waits until requests
// in flight have ended. The directory is updated first, so that other
// replicas stop forwarding to this one.
func (h *Hub) drain() {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.markAllDirty()
	wake(h.writeWake)
	limit := time.Now().Add(h.options.Timing.Drain)
	var leaving sync.WaitGroup
	for _, c := range h.allConnections() {
		leaving.Go(func() { h.drainConnection(c, limit) })
	}
	leaving.Wait()
}

// drainConnection moves one agent. The messages are spread over a quarter of
// the grace period, so that the other replicas do not receive all agents at
// once.
func (h *Hub) drainConnection(c *connection, limit time.Time) {
	grace := h.options.Timing.Grace
	select {
	case <-time.After(rand.N(grace/4 + 1)):
	case <-c.session.CloseChan():
		return
	}
	_ = c.sendControl(hubMessage{Drain: true})
	if h.replicas() == 1 {
		// Without another replica the agent cannot move.
		grace = 0
	}
	select {
	case <-c.moved:
	case <-c.session.CloseChan():
		return
	case <-time.After(grace):
		// Requests in flight complete.
		c.closeWhenIdle()
	}
	select {
	case <-c.session.CloseChan():
	case <-time.After(time.Until(limit)):
		c.finish(closeDraining)
	}
}
