package upstream

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// health is the circuit breaker of an endpoint, driven by the outcomes of
// requests.
//
//	ready      ejectedUntil == 0
//	ejected    ejectedUntil is later than now
//	half-open  ejectedUntil has passed; each probe that is sent sets it again
type health struct {
	ejectedUntil atomic.Int64
	// failures is the number of failures in a row. Handle.healthMu guards it
	// for writing, and the rest altogether.
	failures atomic.Int32
	retrying bool // retryConnect runs
	// ejections is the number of ejections in a row; each is longer than the
	// one before.
	ejections int
}

// healthy reports whether the endpoint is not ejected and passes its checks.
func (e *Endpoint) healthy() bool {
	return e.health.ejectedUntil.Load() == 0 && e.checkFailure.Load() == nil
}

// never is the end of an ejection that only a successful connect ends.
const never = math.MaxInt64

// claimProbe lets one request at a time to a half-open endpoint. A probe that
// does not end keeps others away only for the length of the first ejection.
func (e *Endpoint) claimProbe(until int64) bool {
	s := e.handle.set
	now := s.now()
	return now >= until && e.health.ejectedUntil.CompareAndSwap(until, now+int64(s.cfg.Ejection.Base))
}

// markSuccess counts a success. One of a request that began before the ejection
// does not end it: it is no evidence about the endpoint now.
func (h *Handle) markSuccess(e *Endpoint, trial bool) {
	if e.health.failures.Load() == 0 && e.health.ejectedUntil.Load() == 0 {
		return
	}
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	ejected := e.health.ejectedUntil.Load() != 0
	if ejected && !trial {
		return
	}
	e.health.failures.Store(0)
	e.health.ejections = 0
	if ejected {
		h.restore(e)
	}
}

// markFailure counts a failure, and ejects the endpoint after too many in a row
// or after a failed probe.
func (h *Handle) markFailure(e *Endpoint, outcome Outcome, trial bool) {
	if h.set.cfg.Ejection.Failures < 0 {
		return
	}
	h.healthMu.Lock()
	ejected := e.health.ejectedUntil.Load() != 0
	eject := ejected && trial
	if !ejected {
		failures := e.health.failures.Add(1)
		eject = int(failures) >= h.set.cfg.Ejection.Failures && h.mayEject(e)
	}
	if eject {
		h.eject(e, outcome)
	}
	h.healthMu.Unlock()
	if eject {
		// The other idle connections are likely to be dead too.
		e.closeIdle()
	}
}

// eject ejects an endpoint. After a failed connect it stays ejected until a
// connect in the background succeeds. It is called with healthMu held.
func (h *Handle) eject(e *Endpoint, outcome Outcome) {
	cfg := &h.set.cfg.Ejection
	e.health.ejections++
	until := h.set.now() + int64(backoff.Policy{First: cfg.Base, Longest: cfg.Max}.Base(e.health.ejections))
	if outcome == ConnectFailed {
		// While the Set is being closed no goroutine is started any more.
		if e.health.retrying = e.health.retrying || h.set.start(func() { h.retryConnect(e) }); e.health.retrying {
			until = never
		}
	}
	if e.health.ejectedUntil.Swap(until) == 0 {
		h.set.stats.ejections.Add(1)
	}
	h.countUnhealthy()
	h.set.cfg.Log.Warn("endpoint ejected",
		slog.String("backend", h.id.String()), slog.String("endpoint", e.address),
		slog.String("outcome", outcome.String()), slog.Int("failures", int(e.health.failures.Load())))
}

// restore makes an endpoint ready again. It is called with healthMu held.
func (h *Handle) restore(e *Endpoint) {
	e.health.ejectedUntil.Store(0)
	h.set.stats.returns.Add(1)
	h.countUnhealthy()
	h.set.cfg.Log.Info("endpoint ready again",
		slog.String("backend", h.id.String()), slog.String("endpoint", e.address))
}

// mayEject reports whether, with one more ejected, at least half of the ready
// endpoints stay; those that fail their checks count as ejected. One that
// drains may always be ejected, if there is another.
func (h *Handle) mayEject(e *Endpoint) bool {
	if e.removed.Load() {
		return false
	}
	ejected, ready := 0, 0
	among := false
	for _, m := range h.endpoints.Load().all.entries {
		ready++
		if m.endpoint != e && !m.endpoint.healthy() {
			ejected++
		}
		among = among || m.endpoint == e
	}
	if !among {
		return ready > 0
	}
	return (ejected+1)*2 <= ready
}

// publish makes an endpoint set the current one. When endpoints were removed,
// more than half of the rest may be ejected; the ones with the shortest time
// left are restored.
func (h *Handle) publish(r *endpointSet) {
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	h.endpoints.Store(r)
	plain := r.fastPath()
	if plain != nil {
		plain.fastPathSet.Store(r)
	}
	h.fastPath.Store(plain)
	for {
		var first *Endpoint
		ejected := 0
		for _, m := range r.all.entries {
			until := m.endpoint.health.ejectedUntil.Load()
			if until == 0 {
				continue
			}
			ejected++
			if first == nil || until < first.health.ejectedUntil.Load() {
				first = m.endpoint
			}
		}
		if ejected*2 <= len(r.all.entries) {
			break
		}
		h.restore(first)
	}
	h.countUnhealthy()
}

// countUnhealthy counts the endpoints that are not healthy. It is called with
// healthMu held.
func (h *Handle) countUnhealthy() {
	ill := int32(0)
	r := h.endpoints.Load()
	for i := range r.entries {
		if !r.entries[i].endpoint.healthy() {
			ill++
		}
	}
	h.unhealthy.Store(ill)
}

// retryConnect tries to connect to an ejected endpoint until that works, and
// makes it half-open then. No client has to wait for it, and an endpoint that
// comes back after a long time is used within Ejection.Base.
func (h *Handle) retryConnect(e *Endpoint) {
	s := h.set
	ticker := time.NewTicker(s.cfg.Ejection.Base)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop.Done():
			return
		case <-ticker.C:
		}
		if !h.stillEjected(e) {
			return
		}
		d := h.endpoints.Load().dialer
		if d == nil {
			continue // the backend is broken, which may change
		}
		conn, err := e.connect(s.stop, d, 0, true)
		if err != nil {
			continue
		}
		conn.Release()
		h.healthMu.Lock()
		e.health.ejectedUntil.CompareAndSwap(never, s.now())
		e.health.retrying = false
		h.healthMu.Unlock()
		return
	}
}

// stillEjected reports whether a connect is still needed.
func (h *Handle) stillEjected(e *Endpoint) bool {
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	e.health.retrying = !e.removed.Load() && e.health.ejectedUntil.Load() == never
	return e.health.retrying
}
