package upstream

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/route"
)

// counters are of the whole Set. What happens with each request is counted by
// endpoint instead, so that CPUs do not contend for one cache line.
type counters struct {
	connects, connectFailures, expired, stale, polluted, overflows atomic.Uint64
	ejections, returns, overloads, streams, refused                atomic.Uint64
	checks, checkFailures, unhealthy, recovered                    atomic.Uint64
}

// Stats are counters since the Set was made.
type Stats struct {
	// Connects and ConnectFailures count connections that were made, and
	// attempts that failed.
	Connects, ConnectFailures uint64
	// Expired, Stale, Polluted and Overflows count connections that were not
	// used again: idle for too long, closed by the backend, with unexpected
	// bytes to read, or more than the pool keeps.
	Expired, Stale, Polluted, Overflows uint64
	// Ejections and Returns count endpoints that were ejected and restored.
	Ejections, Returns uint64
	// Overloads are requests that were refused with an OverloadError.
	Overloads uint64
	// Streams counts the requests sent by HTTP/2, and Refused those of them
	// that the endpoint refused before processing them.
	Streams, Refused uint64
	// Checks and CheckFailures count health checks, Unhealthy and Recovered
	// endpoints that began to fail them and to pass them again.
	Checks, CheckFailures, Unhealthy, Recovered uint64
}

// Stats returns the counters.
func (s *Set) Stats() Stats {
	c := &s.stats
	return Stats{
		Connects:        c.connects.Load(),
		ConnectFailures: c.connectFailures.Load(),
		Expired:         c.expired.Load(),
		Stale:           c.stale.Load(),
		Polluted:        c.polluted.Load(),
		Overflows:       c.overflows.Load(),
		Ejections:       c.ejections.Load(),
		Returns:         c.returns.Load(),
		Overloads:       c.overloads.Load(),
		Streams:         c.streams.Load(),
		Refused:         c.refused.Load(),
		Checks:          c.checks.Load(),
		CheckFailures:   c.checkFailures.Load(),
		Unhealthy:       c.unhealthy.Load(),
		Recovered:       c.recovered.Load(),
	}
}

// BackendState is the state of a backend, for the admin API.
type BackendState struct {
	ID route.BackendID `json:"id"`
	// Broken is why no request is sent to it; empty when it is not broken.
	Broken string `json:"broken,omitempty"`
	// Release is the name of the Release that divides its requests.
	Release   string          `json:"release,omitempty"`
	Endpoints []EndpointState `json:"endpoints"`
}

// EndpointState is the state of an endpoint, for the admin API.
type EndpointState struct {
	Address string              `json:"address"`
	Zone    string              `json:"zone,omitempty"`
	Weight  uint64              `json:"weight"`
	State   route.EndpointState `json:"state"`
	Health  Health              `json:"health"`
	// Revision is stable or canary, for an endpoint of a Release.
	Revision string `json:"revision,omitempty"`
	// EjectedFor is how long it stays ejected; 0 when it is not, or when a
	// successful connect has to end the ejection.
	EjectedFor time.Duration `json:"ejectedFor,omitempty"`
	// Unhealthy is why it fails its health checks; empty when it passes them.
	Unhealthy string `json:"unhealthy,omitempty"`
	// Failures is the number of failures in a row.
	Failures int `json:"failures"`
	// InFlight is the number of running requests, Open that of connections, and
	// Idle that of the connections that are not in use.
	InFlight int64 `json:"inFlight"`
	Open     int64 `json:"open"`
	Idle     int   `json:"idle"`
	// Reused is how often a connection was used again.
	Reused uint64 `json:"reused"`
	// Latency is the average time to a response; 0 where it is not measured.
	Latency time.Duration `json:"latency,omitempty"`
	// Totals are the requests that have ended, by outcome.
	Totals map[string]uint64 `json:"totals"`
}

// Health is the health of an endpoint as the edge sees it.
type Health string

// The states of health.
const (
	HealthReady   Health = "ready"
	HealthEjected Health = "ejected"
	// HealthHalfOpen: the next request is a probe that decides.
	HealthHalfOpen Health = "trial"
	// HealthUnhealthy: it fails its health checks.
	HealthUnhealthy Health = "unhealthy"
)

// Snapshot returns the state of all backends, in the order of their identities.
func (s *Set) Snapshot() []BackendState {
	s.mu.Lock()
	handles := slices.Collect(maps.Values(s.backends))
	s.mu.Unlock()
	slices.SortFunc(handles, func(a, b *Handle) int { return a.id.Compare(b.id) })
	now := s.now()
	states := make([]BackendState, len(handles))
	for i, h := range handles {
		r := h.endpoints.Load()
		states[i] = BackendState{ID: h.id, Endpoints: make([]EndpointState, len(r.entries))}
		if broken, is := r.refusal.(*BrokenError); is {
			states[i].Broken = broken.Reason
		}
		if r.shares != nil {
			states[i].Release = r.shares.release.Name
		}
		for j := range r.entries {
			states[i].Endpoints[j] = r.entries[j].describe(now)
		}
	}
	return states
}

func (m *endpointEntry) describe(now int64) EndpointState {
	e := m.endpoint
	state := EndpointState{
		Address:  e.address,
		Zone:     m.zone,
		Weight:   m.weight,
		State:    route.EndpointReady,
		Health:   HealthReady,
		Failures: int(e.health.failures.Load()),
		InFlight: e.inFlight.Load(),
		Open:     e.openConns.Load(),
		Idle:     e.pool.idleCount(),
		Reused:   e.reused.Load(),
		Latency:  time.Duration(e.latency.Load()),
		Totals:   make(map[string]uint64, outcomes),
	}
	if m.draining {
		state.State = route.EndpointDraining
	}
	if revision := e.revision.Load(); revision != nil {
		state.Revision = revision.Name()
	}
	switch until := e.health.ejectedUntil.Load(); {
	case until == 0:
	case until <= now:
		state.Health = HealthHalfOpen
	case until == never:
		state.Health = HealthEjected
	default:
		state.Health = HealthEjected
		state.EjectedFor = time.Duration(until - now)
	}
	if reason := e.checkFailure.Load(); reason != nil {
		state.Health, state.Unhealthy = HealthUnhealthy, *reason
	}
	for o := range e.ended {
		state.Totals[Outcome(o).String()] = e.ended[o].Load()
	}
	return state
}
