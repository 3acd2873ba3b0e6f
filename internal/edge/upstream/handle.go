package upstream

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/route"
)

// Handle stands for one backend, also for one that the table does not have.
// Every rule that names the backend holds the same Handle.
type Handle struct {
	set       *Set
	endpoints atomic.Pointer[endpointSet]
	// fastPath is the endpoint of a backend that needs no choice, nil for any
	// other: with thousands of backends, the endpoint set is one more cache
	// miss.
	fastPath atomic.Pointer[Endpoint]
	id       route.BackendID

	next      atomic.Uint64 // the next entry of roundRobin
	smoothMu  sync.Mutex    // guards Endpoint.smoothWeight
	healthMu  sync.Mutex    // guards changes of the health of endpoints
	unhealthy atomic.Int32  // endpoints that are ejected, half-open or fail their checks

	inFlight atomic.Int64 // of all endpoints; counted only where it is bounded

	backend *route.Backend // guarded by Set.mu; nil when the table does not have it
}

// PickOptions is what of a request decides about its endpoint.
type PickOptions struct {
	// Sticky is the value of the sticky cookie, empty when there is none. It
	// comes from the client and is not trusted.
	Sticky string
	// Hash is the key of consistent hashing. It is used only with HasHash.
	Hash    uint64
	HasHash bool
	// Client is a hash of the client for a Release that divides clients. It is used
	// only with HasClient.
	HasClient bool
	Client    uint64
	// Revision is the revision that the request selects, empty for none.
	Revision route.Revision
	// Avoid is the endpoint that has just failed. It is chosen again only when
	// there is no other.
	Avoid *Endpoint
}

// ID is the backend's identity, which never changes.
func (h *Handle) ID() *route.BackendID { return &h.id }

// Transport is what the proxy needs of a backend before it picks an endpoint.
// For the rest of the request, see [Lease.Transport].
func (h *Handle) Transport() *Transport { return &h.endpoints.Load().transport }

// Healthy reports whether the backend has an endpoint that is healthy.
func (h *Handle) Healthy() bool {
	r := h.endpoints.Load()
	return r.refusal == nil && !r.noneHealthy()
}

// PickFast is Pick for a backend that needs no choice: it has one endpoint,
// which is healthy, has no limits, and gets requests unchanged. It reports
// false for any other, and the caller uses Pick.
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

// pick chooses an endpoint, once the backend as a whole has room. The sticky
// endpoint comes first, then the revision of a Release, then the edge's own zone
// if it suffices, then all endpoints.
func (h *Handle) pick(r *endpointSet, choice PickOptions) (Lease, error) {
	g := pickFilter{avoid: choice.Avoid, limit: r.limit}
	mark := ""
	if choice.Sticky != "" {
		value := choice.Sticky
		if at := strings.Index(value, stickyMark); at >= 0 {
			value, mark = value[:at], value[at:]
		}
		// A client loses an endpoint that is unhealthy. It does not lose one
		// that is full, or a busy hour would end every session.
		if m := r.sticky[value]; m != nil && g.available(m.endpoint) && r.shares.keeps(m, &choice) {
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
	if r.shares != nil {
		if lease, ok := h.pickRevision(r, &g, &choice, mark); ok {
			return lease, nil
		}
	}
	if lease, ok := h.pickAvailable(r, &r.candidateSet, &g, choice); ok {
		return lease, nil
	}
	return h.lastResort(r, &g, choice)
}

// pickAvailable picks one of the candidates, from the edge's own zone if that suffices.
func (h *Handle) pickAvailable(r *endpointSet, s *candidateSet, g *pickFilter, choice PickOptions) (Lease, bool) {
	if len(s.near.entries) > 0 && s.zoneSuffices(h.unhealthy.Load() > 0) {
		if lease, ok := h.tryPick(r, &s.near, g, choice); ok {
			return lease, true
		}
	}
	return h.tryPick(r, &s.all, g, choice)
}

// lastResort picks an endpoint that Pick avoids: the one in Avoid, then an
// ejected or unhealthy one. It does the latter only when no healthy one is
// left, not when the healthy ones are full. A 503 instead would help no client:
// an endpoint that is really down is no worse, and when all fail at once it is
// often the check that is wrong.
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

// pickAttempts is how often an endpoint is chosen again after another request
// has filled it up or has claimed its probe meanwhile.
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

// acquire counts a request on an endpoint, unless that exceeds its limit. A
// half-open endpoint takes one request at a time.
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

// Lease is one request on one endpoint. It is not safe for concurrent use.
type Lease struct {
	handle    *Handle
	endpoints *endpointSet // nil after PickFast, until it is needed
	endpoint  *Endpoint    // nil after Done
	sticky    string
	began     int64 // 0 when the latency is not measured
	halfOpen  bool  // the endpoint was ejected, and this request is its probe
	// counted is set if it counts against the limit of the whole backend.
	counted bool
}

// Endpoint is the endpoint that was chosen. It is nil after Done.
func (l *Lease) Endpoint() *Endpoint { return l.endpoint }

// Transport is the transport of the endpoint. It belongs to the same version of
// the backend as the endpoint, or as the connection that was made for it.
func (l *Lease) Transport() *Transport {
	if l.endpoints == nil {
		return &defaultTransport
	}
	return &l.endpoints.transport
}

// defaultTransport is that of backends on the fast path: requests are sent
// unchanged.
var defaultTransport Transport

// StickyValue is the value of the sticky cookie for this endpoint. It is empty
// when the backend has no sticky cookie. The client should get it when it
// differs from what it sent.
func (l *Lease) StickyValue() string {
	if l.endpoint == nil {
		return ""
	}
	return l.sticky
}

// Connect returns an idle connection, the most recently used one, or makes one.
// With fresh it always makes one: after a reused connection failed, the others
// may be stale too. Where the endpoint speaks HTTP/2 it returns a stream of a
// connection that has room, or of one that is being made. The timeout bounds
// all of it; 0 means the default. When no connection could be made, the error
// is a ConnectError.
func (l *Lease) Connect(ctx context.Context, timeout time.Duration, fresh bool) (*Conn, error) {
	e := l.endpoint
	if e == nil {
		return nil, errLeaseEnded
	}
	if !fresh {
		if conn := e.takeIdle(nil); conn != nil {
			return conn, nil
		}
	}
	if l.endpoints == nil {
		l.endpoints = e.fastPathSet.Load()
	}
	return e.connect(ctx, l.endpoints.dialer, timeout, fresh)
}

// Dial makes a connection that carries bytes and not requests, for TCP routes.
// It is always new, and closed when it is released. The timeout is as for
// Connect.
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
	conn.dialer = nil // so that no pool takes it
	return conn, nil
}

// ResponseStarted notes that the head of a response has come. It is optional.
// With it a half-open endpoint is ready at once and not only at the end of a
// long response, and the method leastTime measures the time to the head.
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

// Done ends the lease. The outcome counts for the health of the endpoint.
// Calling it again has no effect.
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
		// A quick failure must not look like a low latency.
		l.handle.markSuccess(e, l.halfOpen)
	case TimedOut:
		l.measure(e)
		l.handle.markFailure(e, outcome, l.halfOpen)
	case ConnectFailed, Reset:
		l.handle.markFailure(e, outcome, l.halfOpen)
	}
}

// measure adds the latency of the request, once.
func (l *Lease) measure(e *Endpoint) {
	if l.began == 0 {
		return
	}
	now := l.handle.set.now()
	e.observeLatency(max(now-l.began, 1), now)
	l.began = 0
}
