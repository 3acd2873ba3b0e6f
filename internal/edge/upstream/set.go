package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/route"
)

// Set has the state of all backends. It outlives changes of the table.
type Set struct {
	cfg     Config
	began   time.Time
	stats   counters
	sweeper sweeper
	checker checker
	absent  *roster // of backends that the table has not

	// stop ends when the Set is closed; life guards running against that.
	stop    context.Context
	halt    context.CancelFunc
	life    sync.Mutex
	running sync.WaitGroup

	// mu is for changes. Requests do not take it.
	mu       sync.Mutex
	backends map[route.BackendID]*Handle
	// others are the handles of backends that the table has not. Only those
	// that hold them keep them alive, or names that come and go would add up.
	others cache.Weak[route.BackendID, Handle]
	// referring are the backends that name an authority or certificate.
	referring map[route.BackendID]*Handle
	trust     trust
}

// NewSet makes an empty Set.
func NewSet(cfg Config) *Set {
	s := &Set{
		cfg:       cfg.withDefaults(),
		began:     time.Now(),
		absent:    &roster{listing: &listing{refusal: ErrNoBackend}},
		backends:  map[route.BackendID]*Handle{},
		referring: map[route.BackendID]*Handle{},
		trust:     newTrust(),
	}
	s.sweeper.set, s.checker.set = s, s
	s.stop, s.halt = context.WithCancel(context.Background())
	return s
}

// now is the time since the Set was made. It is never 0.
func (s *Set) now() int64 { return int64(time.Since(s.began)) + 1 }

// Handle gives the handle of a backend, also of one that is not there yet.
func (s *Set) Handle(id route.BackendID) *Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle(id)
}

func (s *Set) handle(id route.BackendID) *Handle {
	if h := s.backends[id]; h != nil {
		return h
	}
	return s.others.GetOrCreate(id, func() *Handle {
		h := &Handle{set: s, id: id}
		h.roster.Store(s.absent)
		return h
	})
}

// SetZone says where this replica runs, for backends that prefer their own zone.
// It counts for those that change afterwards, so it is for the start.
func (s *Set) SetZone(zone string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Zone = zone
}

// Apply follows a change of the table. Each backend changes at one moment, with
// all of its endpoints; one that cannot be served is broken afterwards, and the
// others are as they should be. It must not be called concurrently with a later
// change: the order of calls is the order of changes.
func (s *Set) Apply(change *route.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop.Err() != nil {
		return
	}
	retrust := s.trust.apply(change)
	for _, id := range change.Backends.Removed {
		s.remove(id)
	}
	for _, list := range [][]*route.Backend{change.Backends.Added, change.Backends.Changed, change.Backends.EndpointsChanged} {
		for _, backend := range list {
			s.settle(backend)
		}
	}
	if retrust {
		for _, h := range s.referring {
			s.settle(h.backend)
		}
	}
}

// settle brings one backend up to its new value. It does nothing that is not
// needed, so it does not matter what of the value has changed.
func (s *Set) settle(b *route.Backend) {
	h := s.handle(b.ID)
	old := h.roster.Load()
	d, err := s.newDialer(b, old.dialer)

	known := make(map[place]*Endpoint, len(old.members))
	for i := range old.members {
		e := old.members[i].endpoint
		known[e.place] = e
	}
	born := int64(0)
	if h.backend != nil {
		born = s.now()
	}
	r := newRoster(h, b, func(at place) *Endpoint {
		e := known[at]
		delete(known, at)
		if e == nil {
			e = newEndpoint(h, at)
			e.born = born
		}
		return e
	})
	r.dialer = d
	if err != nil {
		r.refuse(&BrokenError{Backend: b.ID, Reason: err.Error()})
	} else if len(r.members) == 0 {
		r.refuse(ErrNoEndpoint)
	}

	// Before the new roster is seen, no connection of the old way is left to be
	// taken; after it, nobody comes for those that left.
	for i := range r.members {
		r.members[i].endpoint.rewire(d)
	}
	h.publish(r)
	for _, e := range known {
		e.retire()
		s.checker.forget(e)
	}
	s.checker.follow(b, r)
	s.own(h, b)
	s.report(h, old, r)
}

// own notes that the table has the backend.
func (s *Set) own(h *Handle, b *route.Backend) {
	h.backend = b
	s.backends[b.ID] = h
	s.others.Delete(b.ID)
	delete(s.referring, b.ID)
	if t := b.Transport.TLS; t != nil && (t.Authority != (route.AuthorityID{}) || t.Certificate != (route.CertificateID{})) {
		s.referring[b.ID] = h
	}
}

// report logs a backend that breaks, but not again with every endpoint that
// changes meanwhile.
func (s *Set) report(h *Handle, old, r *roster) {
	broken, is := r.refusal.(*BrokenError)
	before, was := old.refusal.(*BrokenError)
	switch {
	case is && (!was || before.Reason != broken.Reason):
		s.cfg.Log.Error("backend broken, it answers 503", slog.String("backend", h.id.String()), slog.String("reason", broken.Reason))
	case was && !is:
		s.cfg.Log.Info("backend no longer broken", slog.String("backend", h.id.String()))
	}
}

func (s *Set) remove(id route.BackendID) {
	h := s.backends[id]
	if h == nil {
		return
	}
	old := h.roster.Load()
	h.publish(s.absent)
	for i := range old.members {
		old.members[i].endpoint.retire()
		s.checker.forget(old.members[i].endpoint)
	}
	h.backend = nil
	delete(s.backends, id)
	delete(s.referring, id)
	s.others.Put(id, h)
}

// Close closes idle connections and stops what runs in the background. Leases
// may still be ended; connections that are released are closed, and no new ones
// are made.
func (s *Set) Close() {
	s.life.Lock()
	s.halt()
	s.life.Unlock()
	s.sweeper.stop()
	s.checker.stop()
	s.mu.Lock()
	var shared []*h2client.Conn
	for _, h := range s.backends {
		r := h.roster.Load()
		for i := range r.members {
			e := r.members[i].endpoint
			shared = append(shared, e.pool.shared()...)
			e.rewire(nil)
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
	s.life.Lock()
	defer s.life.Unlock()
	if s.stop.Err() != nil {
		return false
	}
	s.running.Go(f)
	return true
}

// run runs f, unless the Set is closed; Close waits for it.
func (s *Set) run(f func()) {
	s.life.Lock()
	if s.stop.Err() != nil {
		s.life.Unlock()
		return
	}
	s.running.Add(1)
	s.life.Unlock()
	defer s.running.Done()
	f()
}
