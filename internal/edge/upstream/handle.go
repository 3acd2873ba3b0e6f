package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/route"
)

// Handle stands for one backend, whether the table has it or not. It stays the
// same while anybody holds it.
type Handle struct {
	set       *Set
	endpoints atomic.Pointer[endpointSet]
	// fastPath is the endpoint of a roster that leaves nothing to think about, nil
	// where it does: with thousands of backends, the roster is one more thing that
	// has to come from memory.
	fastPath atomic.Pointer[Endpoint]
	id       route.BackendID

	next      atomic.Uint64 // of the round robin with equal weights
	smoothMu  sync.Mutex    // guards Endpoint.current
	healthMu  sync.Mutex    // guards what health says it guards
	unhealthy atomic.Int32  // endpoints that are ejected, on trial or fail their checks

	inFlight atomic.Int64 // of all endpoints; counted only where it is bounded

	backend *route.Backend // guarded by Set.mu; nil when the table has it not
}

// PickOptions is what balancing may look at.
type PickOptions struct {
	// Sticky is the value of the sticky cookie, empty when there is none. The
	// client may have made it up.
	Sticky string
	// Hash tells requests apart, for consistent hashing. It counts only with
	// HasHash.
	Hash    uint64
	HasHash bool
	// Avoid is the endpoint that has just failed. It is chosen again only when
	// there is no other.
	Avoid *Endpoint
}

// ID is the backend's identity, which never changes.
func (h *Handle) ID() *route.BackendID { return &h.id }

// Transport is what the proxy has to know before it can choose. For the rest of
// the request, see [Lease.Transport].
func (h *Handle) Transport() *Transport { return &h.endpoints.Load().transport }

// PickFast is Pick for a backend that no choice is needed for: it has one endpoint,
// which is well, bounds nothing, and takes requests as they are. For others it
// reports false, and Pick answers.
func (h *Handle) PickFast() (Lease, bool) {
	e := h.fastPath.Load()
	if e == nil || !e.healthy() {
		return Lease{}, false
	}
	e.inFlight.Add(1)
	return Lease{handle: h, endpoint: e}, true
}

// Pick chooses an endpoint and counts the request as in flight on it until
// Done. It fails with ErrNoBackend, ErrNoEndpoint, an OverloadError or a
// BrokenError.
func (h *Handle) Pick(choice PickOptions) (Lease, error) {
	r := h.endpoints.Load()
	if e := r.single; e != nil && e != choice.Avoid && e.healthy() {
		if n := e.inFlight.Add(1); r.limit <= 0 || n <= r.limit {
			return Lease{handle: h, endpoints: r, endpoint: e}, nil
		}
		e.inFlight.Add(-1)
	}
	if r.refusal != nil {
		return Lease{}, r.refusal
	}
	if r.maxInFlight <= 0 {
		return h.pick(r, choice)
	}
	if h.inFlight.Add(1) > r.maxInFlight {
		h.inFlight.Add(-1)
		return h.overloaded(r)
	}
	lease, err := h.pick(r, choice)
	if err != nil {
		h.inFlight.Add(-1)
		return lease, err
	}
	lease.counted = true
	return lease, nil
}

// pick chooses an endpoint, once the backend as a whole has room.
func (h *Handle) pick(r *endpointSet, choice PickOptions) (Lease, error) {
	g := pickFilter{avoid: choice.Avoid, limit: r.limit}
	if choice.Sticky != "" {
		// An endpoint that cannot serve the client now loses it; one that has
		// too much to do does not, or a busy hour would empty every session.
		if m := r.sticky[choice.Sticky]; m != nil && g.available(m.endpoint) {
			if lease, ok := h.acquire(r, m, &g); ok {
				return lease, nil
			}
			if g.full(m.endpoint) {
				return h.overloaded(r)
			}
		}
	}
	if len(r.all.entries) == 0 {
		return Lease{}, ErrNoEndpoint
	}
	if r.warmUntil != 0 {
		if now := h.set.now(); now < r.warmUntil {
			g.slowStart, g.now = r.slowStart, now
		}
	}
	if len(r.near.entries) > 0 && r.zoneSuffices(h.unhealthy.Load() > 0) {
		if lease, ok := h.tryPick(r, &r.near, &g, choice); ok {
			return lease, nil
		}
	}
	if lease, ok := h.tryPick(r, &r.all, &g, choice); ok {
		return lease, nil
	}
	return h.lastResort(r, &g, choice)
}

// lastResort sends a request where it would rather not go: to the endpoint to
// avoid, then to one that is ejected or fails its health checks. It does the
// latter only when no other is there, not when the others have too much to do.
// To answer 503 instead would help nobody: an endpoint that is really down
// gives no worse an answer, and when all fail at once it is often the check that
// is wrong.
func (h *Handle) lastResort(r *endpointSet, g *pickFilter, choice PickOptions) (Lease, error) {
	g.avoid = nil
	if lease, ok := h.tryPick(r, &r.all, g, choice); ok {
		return lease, nil
	}
	if g.limit <= 0 || r.noneHealthy() {
		g.unhealthyToo, g.avoid = true, choice.Avoid
		if lease, ok := h.tryPick(r, &r.all, g, choice); ok {
			return lease, nil
		}
		g.avoid = nil
		if lease, ok := h.tryPick(r, &r.all, g, choice); ok {
			return lease, nil
		}
	}
	return h.overloaded(r)
}

func (h *Handle) overloaded(r *endpointSet) (Lease, error) {
	h.set.stats.overloads.Add(1)
	return Lease{}, r.overload
}

// pickAttempts is how often an endpoint is chosen that, by the time it is taken,
// another request has filled up or tries out.
const pickAttempts = 4

func (h *Handle) tryPick(r *endpointSet, f *candidates, g *pickFilter, choice PickOptions) (Lease, bool) {
	for range pickAttempts {
		m := h.choose(r, f, g, choice)
		if m == nil {
			break
		}
		if lease, ok := h.acquire(r, m, g); ok {
			return lease, true
		}
	}
	return Lease{}, false
}

// acquire counts a request on an endpoint, unless it has become too much for it.
func (h *Handle) acquire(r *endpointSet, m *endpointEntry, g *pickFilter) (Lease, bool) {
	e := m.endpoint
	if n := e.inFlight.Add(1); g.limit > 0 && n > g.limit {
		e.inFlight.Add(-1)
		return Lease{}, false
	}
	lease := Lease{handle: h, endpoints: r, endpoint: e, sticky: m.sticky}
	if until := e.health.ejectedUntil.Load(); until != 0 {
		if !g.unhealthyToo && !e.claimProbe(until) {
			e.inFlight.Add(-1)
			return Lease{}, false
		}
		lease.halfOpen = true
	}
	if r.method == route.BalanceLeastTime {
		lease.began = h.set.now()
	}
	return lease, true
}

// Lease is one request on one endpoint. It is for one goroutine.
type Lease struct {
	handle    *Handle
	endpoints *endpointSet // nil while it is of no concern, see PickPlain
	endpoint  *Endpoint    // nil once it has ended
	sticky    string
	began     int64 // 0 when nobody wants to know how long it takes
	halfOpen  bool  // the endpoint was not ready, so this decides about it
	// counted says that it counts among the requests of the whole backend.
	counted bool
}

// Endpoint is the one that was chosen. It is nil after Done.
func (l *Lease) Endpoint() *Endpoint { return l.endpoint }

// Transport is how requests travel to the endpoint. It belongs to the same
// moment as the choice of the endpoint, or as the connection that was made for it.
func (l *Lease) Transport() *Transport {
	if l.endpoints == nil {
		return &defaultTransport
	}
	return &l.endpoints.transport
}

// defaultTransport takes requests as they are.
var defaultTransport Transport

// StickyValue is the cookie's value that leads back to this endpoint. It is
// empty when the backend has no sticky cookie. When it differs from what the
// client sent, the client should get it.
func (l *Lease) StickyValue() string {
	if l.endpoint == nil {
		return ""
	}
	return l.sticky
}

// Connect gives an idle connection, the most recently used one, or makes one.
// With fresh it always makes one: after a reused connection died, the others
// may be dead too. Where the endpoint speaks HTTP/2 it gives a stream of a
// connection that has room, or of one that is being made. The timeout bounds
// all of it; 0 means the default. When no connection could be made, the error
// is a ConnectError.
func (l *Lease) Connect(ctx context.Context, timeout time.Duration, fresh bool) (*Conn, error) {
	e := l.endpoint
	if e == nil {
		return nil, errLeaseEnded
	}
	if !fresh {
		if conn := e.takeIdle(); conn != nil {
			return conn, nil
		}
	}
	if l.endpoints == nil {
		l.endpoints = e.fastPathSet.Load()
	}
	return e.connect(ctx, l.endpoints.dialer, timeout, fresh)
}

// Dial makes a connection that carries bytes and not requests, for TCP routes:
// it is new, whatever is spoken on it, and it is closed when it is released.
// The timeout is as for Connect.
func (l *Lease) Dial(ctx context.Context, timeout time.Duration) (*Conn, error) {
	e := l.endpoint
	if e == nil {
		return nil, errLeaseEnded
	}
	ctx, cancel := e.withConnectTimeout(ctx, timeout)
	defer cancel()
	conn, err := e.dialSingle(ctx, l.endpoints.dialer)
	if err != nil {
		return nil, err
	}
	conn.dialer = nil // no pool takes it
	return conn, nil
}

// ResponseStarted says that the head of an answer has come. It is optional. With it,
// an endpoint on trial is ready at once and not only at the end of a long
// answer, and the method leastTime knows how long the head took, not the whole.
func (l *Lease) ResponseStarted() {
	if l.endpoint == nil {
		return
	}
	l.measure(l.endpoint)
	if l.halfOpen {
		l.halfOpen = false
		l.handle.markSuccess(l.endpoint, true)
	}
}

// Done ends the lease. The outcome decides about the endpoint's health. Calling
// it again has no effect.
func (l *Lease) Done(outcome Outcome) {
	e := l.endpoint
	if e == nil {
		return
	}
	l.endpoint = nil
	e.inFlight.Add(-1)
	if l.counted {
		l.handle.inFlight.Add(-1)
	}
	e.ended[outcome].Add(1)
	switch outcome {
	case OK:
		l.measure(e)
		l.handle.markSuccess(e, l.halfOpen)
	case ServerError:
		// How quickly it fails says nothing about how quickly it works.
		l.handle.markSuccess(e, l.halfOpen)
	case TimedOut:
		l.measure(e)
		l.handle.markFailure(e, outcome, l.halfOpen)
	case ConnectFailed, Reset:
		l.handle.markFailure(e, outcome, l.halfOpen)
	}
}

// measure takes in how long the request took until now, once.
func (l *Lease) measure(e *Endpoint) {
	if l.began == 0 {
		return
	}
	now := l.handle.set.now()
	e.observeLatency(max(now-l.began, 1), now)
	l.began = 0
}
