package sharedlimit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/sharedtls"
)

const (
	// purpose separates the keys of this server from others with the same secret.
	purpose = "slipway edge limits"
	path    = "/limits"
	// heardFor is how long a replica counts as alive after it was last heard.
	heardFor = 10 * Period
	// resolvePeriod is how often the names of peers are looked up.
	resolvePeriod = 2 * time.Second
	// resolveTimeout bounds one lookup.
	resolveTimeout = 5 * time.Second
	// maxPeers bounds the addresses of peers.
	maxPeers = 256
)

// Accounting is the accounting of a replica.
type Accounting interface {
	// Lend ends a lending period and returns what was spent in it.
	Lend(now time.Time) []Entry
	// Charge charges what another replica spent.
	Charge(sender uint64, entries []Entry, now time.Time)
	// SetReplicas sets how many replicas exist, and how many of them are heard.
	SetReplicas(heard, members int)
}

// Options configure an Exchange.
type Options struct {
	// Address is where other replicas connect to.
	Address string
	// Peers are the replicas, as host:port. A name stands for all of its addresses.
	// The replica itself may be among them.
	Peers []string
	// Secret is the same on all replicas.
	Secret     []byte
	Accounting Accounting
	Log        *slog.Logger
}

// Exchange exchanges the spending of limits with other replicas.
type Exchange struct {
	options  Options
	id       uint64
	listener net.Listener
	stats    stats

	mu sync.Mutex // guards what follows
	// peers are by address.
	peers map[string]*peer
	// heard is when a replica was last heard, by its identity.
	heard map[uint64]time.Time
	// replicas is the last result of count.
	replicas Replicas
}

// Replicas are numbers of replicas, this one included.
type Replicas struct {
	// Heard are those that respond, Members those that exist.
	Heard, Members int
}

// stats are counters for metrics.
type stats struct{ sent, failed, received, entries, dropped atomic.Uint64 }

// Stats are the counters of an Exchange.
type Stats struct {
	// Sent and Failed are messages to other replicas, Received those from them.
	Sent, Failed, Received uint64
	// Entries were received, Dropped could not be sent.
	Entries, Dropped uint64
}

// New opens the listener, so that a taken address fails the start.
func New(ctx context.Context, options Options) (*Exchange, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for other replicas: %w", err)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Exchange{
		options: options, id: binary.BigEndian.Uint64(id[:]), listener: listener,
		peers: map[string]*peer{}, heard: map[uint64]time.Time{}, replicas: Replicas{Heard: 1, Members: 1},
	}, nil
}

// Close closes an Exchange that was not run.
func (e *Exchange) Close() { _ = e.listener.Close() }

// Stats returns the counters.
func (e *Exchange) Stats() Stats {
	s := &e.stats
	return Stats{Sent: s.sent.Load(), Failed: s.failed.Load(), Received: s.received.Load(), Entries: s.entries.Load(), Dropped: s.dropped.Load()}
}

// Replicas returns how many replicas there are.
func (e *Exchange) Replicas() Replicas {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replicas
}

// Run serves other replicas and sends to them until ctx is done.
func (e *Exchange) Run(ctx context.Context) error {
	server, err := sharedtls.Server(e.options.Secret, purpose)
	if err != nil {
		e.Close()
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { e.resolve(ctx, &running) })
	running.Go(func() { e.lend(ctx) })
	e.options.Log.Info("exchanging limits with other replicas", observe.KeyAddress, e.listener.Addr().String(), "peers", e.options.Peers)
	return observe.ServeShared(ctx, e.listener, server, http.HandlerFunc(e.receive), e.options.Log.With(observe.KeyServer, "limits"))
}

// lend ends a lending period at every tick.
func (e *Exchange) lend(ctx context.Context) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// The tick can be late; the accounting needs the time as it is.
		now := time.Now()
		replicas := e.count(now)
		e.options.Accounting.SetReplicas(replicas.Heard, replicas.Members)
		entries := e.options.Accounting.Lend(now)
		e.mu.Lock()
		for _, p := range e.peers {
			e.stats.dropped.Add(uint64(p.add(entries)))
		}
		e.mu.Unlock()
	}
}

// count counts the replicas that were heard, and forgets those that were not for a
// while.
func (e *Exchange) count(now time.Time) Replicas {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard, members := 1, 1
	for id, at := range e.heard {
		if now.Sub(at) > heardFor {
			delete(e.heard, id)
			continue
		}
		heard++
	}
	for _, p := range e.peers {
		if p.identity.Load() != e.id {
			members++
		}
	}
	// A new replica can be heard before its address is found.
	e.replicas = Replicas{Heard: heard, Members: max(heard, members)}
	return e.replicas
}

// hear records that a replica is alive.
func (e *Exchange) hear(id uint64) {
	if id == e.id {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.heard[id]; known || len(e.heard) < maxPeers {
		e.heard[id] = time.Now()
	}
}

// receive serves the message of another replica. The response is the identity of
// this one.
func (e *Exchange) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != path {
		http.NotFound(w, r)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, "the message cannot be read", http.StatusBadRequest)
		return
	}
	m, err := decode(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.sender != e.id {
		e.hear(m.sender)
		e.stats.received.Add(1)
		e.stats.entries.Add(uint64(len(m.entries)))
		e.options.Accounting.Charge(m.sender, m.entries, time.Now())
	}
	_, _ = w.Write(binary.BigEndian.AppendUint64(nil, e.id))
}

// resolve looks up the peers from time to time, and runs a sender for each.
func (e *Exchange) resolve(ctx context.Context, running *sync.WaitGroup) {
	tick := time.NewTicker(resolvePeriod)
	defer tick.Stop()
	var failing string
	for {
		addresses, err := lookUp(ctx, e.options.Peers)
		switch {
		case err == nil:
			failing = ""
			e.setPeers(ctx, addresses, running)
		case err.Error() != failing && ctx.Err() == nil:
			failing = err.Error()
			e.options.Log.Warn("cannot look up the replicas for limits; those known before remain", observe.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookUp returns all addresses of the peers.
func lookUp(ctx context.Context, peers []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var addresses []string
	for _, name := range peers {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		for _, address := range found {
			addresses = append(addresses, net.JoinHostPort(address, port))
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	return addresses[:min(len(addresses), maxPeers)], nil
}

// setPeers starts senders for new addresses and ends those of addresses that are
// gone.
func (e *Exchange) setPeers(ctx context.Context, addresses []string, running *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for address, p := range e.peers {
		if !slices.Contains(addresses, address) {
			p.stop()
			delete(e.peers, address)
		}
	}
	for _, address := range addresses {
		if e.peers[address] != nil || ctx.Err() != nil {
			continue
		}
		p, err := newPeer(ctx, address, e)
		if err != nil {
			e.options.Log.Error("cannot connect to a replica for limits", observe.KeyAddress, address, observe.KeyError, err)
			continue
		}
		e.peers[address] = p
		running.Go(p.run)
	}
}
