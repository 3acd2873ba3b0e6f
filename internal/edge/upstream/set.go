package upstream

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/route"
)

// Set has the state of all backends by identity. It outlives changes of the
// table.
type Set struct {
	cfg     Config
	began   time.Time
	stats   counters
	sweeper sweeper
	checker checker
	absent  *endpointSet // of backends that the table does not have
	// own are the addresses of the edge's entry points, for dialers.
	own atomic.Pointer[[]netip.AddrPort]

	// stop ends when the Set is closed. lifeMu orders that with adding to
	// running.
	stop    context.Context
	cancel  context.CancelFunc
	lifeMu  sync.Mutex
	running sync.WaitGroup

	// mu serializes changes of the table. Requests do not take it.
	mu       sync.Mutex
	backends map[route.BackendID]*Handle
	// absentHandles are the handles of backends that the table does not have.
	// The map holds them weakly: only rules keep them alive, so names that come
	// and go do not add up.
	absentHandles cache.Weak[route.BackendID, Handle]
	// tlsBackends are the backends that name an authority or certificate.
	tlsBackends map[route.BackendID]*Handle
	tlsRegistry tlsRegistry
	revisions   revisionRegistry
	// plainDialers are the dialers without encryption, by protocol.
	plainDialers map[route.Protocol]*dialer
}

// NewSet makes an empty Set.
func NewSet(cfg Config) *Set {
	s := &Set{
		cfg:         cfg.withDefaults(),
		began:       time.Now(),
		absent:      &endpointSet{endpointList: &endpointList{refusal: ErrNoBackend}},
		backends:    map[route.BackendID]*Handle{},
		tlsBackends: map[route.BackendID]*Handle{},
		tlsRegistry: newTLSRegistry(),

		plainDialers: map[route.Protocol]*dialer{},
	}
	s.sweeper.set, s.checker.set = s, s
	s.stop, s.cancel = context.WithCancel(context.Background())
	return s
}

// now is the time since the Set was made. It is never 0.
func (s *Set) now() int64 { return int64(time.Since(s.began)) + 1 }

// Handle returns the handle of a backend, also of one that the table does not
// have.
func (s *Set) Handle(id route.BackendID) *Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle(id)
}

func (s *Set) handle(id route.BackendID) *Handle {
	if h := s.backends[id]; h != nil {
		return h
	}
	return s.absentHandles.GetOrCreate(id, func() *Handle {
		h := &Handle{set: s, id: id}
		h.endpoints.Store(s.absent)
		return h
	})
}

// SetZone sets the zone that this replica runs in, for backends that prefer it.
// It applies to backends that change afterwards, so it is called at the start.
func (s *Set) SetZone(zone string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Zone = zone
}

// SetOwn sets the addresses on which the edge itself listens. No request is sent
// there.
func (s *Set) SetOwn(addresses []netip.AddrPort) { s.own.Store(&addresses) }

// Apply applies a change of the table. Each backend changes at one moment, with
// all of its endpoints; one that cannot be served becomes broken, and the
// others are not affected. Calls must not overlap: the order of calls is the
// order of changes.
func (s *Set) Apply(change *route.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop.Err() != nil {
		return
	}
	retrust := s.tlsRegistry.apply(change)
	for _, id := range change.Backends.Removed {
		s.removeBackend(id)
	}
	for _, list := range [][]*route.Backend{change.Backends.Added, change.Backends.Changed, change.Backends.EndpointsChanged} {
		for _, backend := range list {
			s.updateBackend(backend)
		}
	}
	if retrust {
		for _, h := range s.tlsBackends {
			s.updateBackend(h.backend)
		}
	}
}

// updateBackend applies the new value of a backend. It compares with the
// current state, so it does not matter which part of the value has changed.
func (s *Set) updateBackend(b *route.Backend) {
	h := s.handle(b.ID)
	old := h.endpoints.Load()
	d, err := s.newDialer(b, old.dialer)

	known := make(map[location]*Endpoint, len(old.entries))
	for i := range old.entries {
		e := old.entries[i].endpoint
		known[e.location] = e
	}
	born := int64(0)
	if h.backend != nil {
		born = s.now()
	}
	r := newEndpointSet(h, b, func(at location) *Endpoint {
		e := known[at]
		delete(known, at)
		if e == nil {
			e = newEndpoint(h, at)
			e.addedAt = born
		}
		return e
	})
	r.dialer = d
	if err != nil {
		r.refuse(&BrokenError{Backend: b.ID, Reason: err.Error()})
	} else if len(r.entries) == 0 {
		r.refuse(ErrNoEndpoint)
	}

	// The old connections are closed before the new set is published, so that
	// no request takes one of them; removed endpoints are closed after it, when
	// no request picks them any more.
	s.setRevisions(old, r)
	for i := range r.entries {
		r.entries[i].endpoint.resetTransport(d)
	}
	h.publish(r)
	for _, e := range known {
		e.close()
		s.checker.forget(e)
	}
	s.checker.update(b, r)
	s.addBackend(h, b)
	s.logBroken(h, old, r)
}

// setRevisions gives the endpoints of a backend the counters of their revisions. The new
// use begins before the old one ends, so that counts go on.
func (s *Set) setRevisions(old, r *endpointSet) {
	if old.shares == nil && r.shares == nil {
		return
	}
	now := time.Now()
	s.revisions.use(r.shares, now)
	s.revisions.drop(old.shares, now)
	for i := range r.entries {
		m := &r.entries[i]
		if r.shares != nil {
			m.endpoint.revision.Store(r.shares.parts[m.revision].counters)
		} else {
			m.endpoint.revision.Store(nil)
		}
	}
}

// addBackend notes that the table has the backend.
func (s *Set) addBackend(h *Handle, b *route.Backend) {
	h.backend = b
	s.backends[b.ID] = h
	s.absentHandles.Delete(b.ID)
	delete(s.tlsBackends, b.ID)
	if t := b.Transport.TLS; t != nil && (t.Authority != (route.AuthorityID{}) || t.Certificate != (route.CertificateID{})) {
		s.tlsBackends[b.ID] = h
	}
}

// logBroken logs a backend that becomes broken, but not again with every change
// of its endpoints.
func (s *Set) logBroken(h *Handle, old, r *endpointSet) {
	broken, is := r.refusal.(*BrokenError)
	before, was := old.refusal.(*BrokenError)
	switch {
	case is && (!was || before.Reason != broken.Reason):
		s.cfg.Log.Error("backend broken, responding with 503", slog.String("backend", h.id.String()), slog.String("reason", broken.Reason))
	case was && !is:
		s.cfg.Log.Info("backend no longer broken", slog.String("backend", h.id.String()))
	}
}

func (s *Set) removeBackend(id route.BackendID) {
	h := s.backends[id]
	if h == nil {
		return
	}
	old := h.endpoints.Load()
	s.revisions.drop(old.shares, time.Now())
	h.publish(s.absent)
	for i := range old.entries {
		old.entries[i].endpoint.close()
		s.checker.forget(old.entries[i].endpoint)
	}
	h.backend = nil
	delete(s.backends, id)
	delete(s.tlsBackends, id)
	s.absentHandles.Put(id, h)
}

// Close closes idle connections and stops everything in the background. Leases
// may still be ended; connections that are released are closed, and no new ones
// are made.
func (s *Set) Close() {
	s.lifeMu.Lock()
	s.cancel()
	s.lifeMu.Unlock()
	s.sweeper.stop()
	s.checker.stop()
	s.mu.Lock()
	var shared []*h2client.Conn
	for _, h := range s.backends {
		r := h.endpoints.Load()
		for i := range r.entries {
			e := r.entries[i].endpoint
			shared = append(shared, e.pool.listShared()...)
			e.resetTransport(nil)
		}
	}
	s.mu.Unlock()
	s.running.Wait()
	for _, conn := range shared {
		if conn.ActiveStreams() == 0 {
			<-conn.Done()
		}
	}
}

// start runs f in the background, unless the Set is closed.
func (s *Set) start(f func()) bool {
	s.lifeMu.Lock()
	defer s.lifeMu.Unlock()
	if s.stop.Err() != nil {
		return false
	}
	s.running.Go(f)
	return true
}

// run runs f, unless the Set is closed. Close waits for it.
func (s *Set) run(f func()) {
	s.lifeMu.Lock()
	if s.stop.Err() != nil {
		s.lifeMu.Unlock()
		return
	}
	s.running.Add(1)
	s.lifeMu.Unlock()
	defer s.running.Done()
	f()
}
