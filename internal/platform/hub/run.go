package hub

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// goneAfter is how many beats a replica may miss.
	goneAfter = 3
	// refreshBeats is how often a connection is written again although nothing has
	// changed, in beats. It is forgotten after goneAfter of these.
	refreshBeats = 12
	// checkers is how many tokens are checked at a time.
	checkers = 8
)

// oldest is when a connection must have been written at the latest.
func (h *Hub) oldest() time.Time {
	return time.Now().Add(-goneAfter * refreshBeats * h.options.Timing.Beat)
}

// Run tells other replicas about this one, follows revocations, and at the end of
// the context moves the agents away. Servers of the handlers should end after it.
func (h *Hub) Run(ctx context.Context) error {
	if err := h.options.Directory.DeleteConnections(ctx, h.options.ReplicaID); err != nil {
		h.options.Log.Warn("what was left of this replica in the directory could not be removed", observe.KeyError, err)
	}
	// The directory is written until the last agent has moved.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { h.beatOn(writing) })
	loops.Go(func() { h.writeConnections(writing) })
	loops.Go(func() { h.followChanges(writing) })
	loops.Go(func() { h.checkSuspects(writing) })
	<-ctx.Done()
	h.drain()
	stop()
	loops.Wait()
	h.inside.Wait()
	h.peers.CloseIdleConnections()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.options.Timing.Beat)
	defer cancel()
	if err := h.options.Directory.DeleteReplica(last, h.options.ReplicaID); err != nil {
		h.options.Log.Warn("the directory still lists this replica; others forget it in a few seconds", observe.KeyError, err)
	}
	return ctx.Err()
}

// beatOn says that this replica lives and looks which others do.
func (h *Hub) beatOn(ctx context.Context) {
	ticker := time.NewTicker(h.options.Timing.Beat)
	defer ticker.Stop()
	for beats := 1; ; beats++ {
		if err := h.beat(ctx); err != nil && ctx.Err() == nil {
			h.options.Log.Warn("the directory of replicas could not be asked; what was known before is used", observe.KeyError, err)
		}
		if beats%refreshBeats == 0 {
			h.writeAll()
		}
		if beats%h.recheckBeats() == 0 {
			h.suspectAll()
		}
		// What could not be written is tried again.
		wake(h.dirty)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// recheckBeats is how many beats there are between checks of all tokens.
func (h *Hub) recheckBeats() int {
	return max(1, int(h.options.Timing.Recheck/h.options.Timing.Beat))
}

func (h *Hub) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.options.Timing.Beat)
	defer cancel()
	now := time.Now()
	self := h.self()
	self.SeenAt = now
	if err := h.options.Directory.PutReplica(ctx, self); err != nil {
		return err
	}
	lived, err := h.options.Directory.Replicas(ctx, now.Add(-goneAfter*h.options.Timing.Beat))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(lived, func(r store.Replica) bool { return r.ID == self.ID }) {
		lived = append(lived, self)
	}
	h.others.Store(&lived)
	return nil
}

// writeAll has every runtime written again.
func (h *Hub) writeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.runtimes {
		h.unwritten[id] = true
	}
}

// writeConnections writes into the directory which runtimes are connected.
func (h *Hub) writeConnections(ctx context.Context) {
	for {
		select {
		case <-h.dirty:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		batch := slices.Collect(maps.Keys(h.unwritten))
		h.mu.Unlock()
		for _, id := range batch {
			if err := h.writeConnection(ctx, id); err != nil {
				if ctx.Err() == nil {
					h.options.Log.Warn("the directory could not be told of a connection; it is tried again", observe.KeyError, err)
				}
				break
			}
		}
	}
}

func (h *Hub) writeConnection(ctx context.Context, id string) error {
	h.mu.Lock()
	delete(h.unwritten, id)
	count := 0
	if r := h.runtimes[id]; r != nil && !h.draining {
		count = len(r.connections)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.options.Timing.Beat)
	defer cancel()
	err := h.options.Directory.PutConnection(ctx, store.Connection{
		RuntimeID: id, ReplicaID: h.options.ReplicaID, Count: count, SeenAt: time.Now(),
	})
	if err != nil {
		h.mu.Lock()
		h.unwritten[id] = true
		h.mu.Unlock()
	}
	return err
}

// followChanges hears of revocations.
func (h *Hub) followChanges(ctx context.Context) {
	for ctx.Err() == nil {
		for change := range h.options.Directory.Changes(ctx) {
			switch change.Kind {
			case store.ChangeCredential, store.ChangeRuntime:
				h.suspect(change.ID)
			case store.ChangeAll:
				h.suspectAll()
			}
		}
		// The store hears nothing any more; what it missed is not known.
		h.suspectAll()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// suspect has the tokens of a runtime checked.
func (h *Hub) suspect(runtimeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard.Add(1)
	if h.runtimes[runtimeID] != nil {
		h.suspected[runtimeID] = true
		wake(h.suspects)
	}
}

func (h *Hub) suspectAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard.Add(1)
	for id := range h.runtimes {
		h.suspected[id] = true
	}
	wake(h.suspects)
}

// checkSuspects checks tokens again.
func (h *Hub) checkSuspects(ctx context.Context) {
	for {
		select {
		case <-h.suspects:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		var list []*connection
		for id := range h.suspected {
			if r := h.runtimes[id]; r != nil {
				list = append(list, r.connections...)
			}
		}
		clear(h.suspected)
		h.mu.Unlock()
		var checking sync.WaitGroup
		room := make(chan struct{}, checkers)
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

// drain asks agents to move, and waits for requests to end.
func (h *Hub) drain() {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.writeAll()
	wake(h.dirty)
	limit := time.Now().Add(h.options.Timing.Drain)
	var leaving sync.WaitGroup
	for _, c := range h.everyConnection() {
		leaving.Go(func() { h.sendAway(c, limit) })
	}
	leaving.Wait()
}

// sendAway asks one agent to move. The requests are spread a little, so that the
// other replicas do not get all agents at once.
func (h *Hub) sendAway(c *connection, limit time.Time) {
	grace := h.options.Timing.Grace
	select {
	case <-time.After(rand.N(grace/4 + 1)):
	case <-c.session.CloseChan():
		return
	}
	_ = c.say(notice{Drain: true})
	if h.replicas() == 1 {
		// There is nowhere to go.
		grace = 0
	}
	select {
	case <-c.moved:
	case <-c.session.CloseChan():
		return
	case <-time.After(grace):
		// What has begun is finished.
		c.leaveWhenIdle()
	}
	select {
	case <-c.session.CloseChan():
	case <-time.After(time.Until(limit)):
		c.finish(endDraining)
	}
}
