package upstream

import (
	"cmp"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// Transport is what the proxy needs to know of a backend. It never changes.
type Transport struct {
	// Host is sent as the Host header. When it is empty, the client's is.
	Host string
	// Sticky is the cookie that keeps a client at its endpoint, with its name;
	// nil when there is none.
	Sticky *route.StickyCookie
	// Hash is the source of PickOptions.Hash; nil unless the method is hash.
	Hash *route.HashKey
	// TLS is set if requests are sent over TLS.
	TLS bool
	// HostOfEndpoint sends the endpoint's address as the Host header.
	HostOfEndpoint bool
	// Divided is set if the backend has a Release: see [Handle.Release].
	Divided bool
}

// endpointSet is one version of a backend: everything that Pick reads. It never
// changes once it is published, except for the counters of its endpoints. It is
// one cache line, with the fields that a single endpoint needs; the rest is in
// endpointList.
type endpointSet struct {
	// single is the endpoint of a backend with only one, which has no limit but
	// the one per endpoint; nil where Pick has to choose.
	single    *Endpoint
	limit     int64 // requests in flight on one endpoint; 0 is no bound
	transport Transport
	*endpointList
}

// endpointList is the part of an endpointSet that Pick reads to choose.
type endpointList struct {
	// refusal is the error of every Pick; nil for a backend that gets requests.
	refusal     error
	overload    *OverloadError
	dialer      *dialer // nil when the backend is broken
	maxInFlight int64   // requests in flight on all endpoints; 0 is no bound
	method      route.BalanceMethod
	slowStart   int64 // the length of slow start, in nanoseconds
	// warmUntil is when the last endpoint ends its slow start; 0 when none is
	// in it.
	warmUntil int64

	entries      []endpointEntry // all endpoints, in the order of the table
	candidateSet                 // the endpoints that are ready and have a weight
	sticky       map[string]*endpointEntry
	shares       *releaseShares // nil without a Release
}

// fastPath returns the endpoint of a backend that needs no choice and no change
// of the request, nil for any other.
func (r *endpointSet) fastPath() *Endpoint {
	if r.limit > 0 || r.transport != (Transport{}) {
		return nil
	}
	return r.single
}

// refuse makes every Pick fail with an error.
func (r *endpointSet) refuse(err error) { r.refusal, r.single = err, nil }

// endpointEntry is an endpoint with the properties that may change in the
// table.
type endpointEntry struct {
	endpoint *Endpoint
	weight   uint64
	zone     string
	draining bool
	revision revisionIndex
	sticky   string
}

// candidates are the endpoints that a balancing method chooses from.
type candidates struct {
	entries []*endpointEntry
	total   uint64
	// cumulative has the sum of the weights up to each entry. It is nil when
	// all weights are equal.
	cumulative []uint64
}

// candidateSet are candidates with those of the edge's own zone.
type candidateSet struct {
	all   candidates
	near  candidates // those of all in the edge's own zone, if it is preferred
	zones uint64     // the number of zones of all
}

// newEndpointSet makes the endpoint set of a backend. endpoint returns the
// Endpoint at a location: the existing one if there is one, so that its state
// stays.
func newEndpointSet(h *Handle, b *route.Backend, endpoint func(location) *Endpoint) *endpointSet {
	cfg := &h.set.cfg
	r := &endpointSet{
		limit: cmp.Or(b.MaxInFlightPerEndpoint, cfg.MaxInFlightPerEndpoint),
		transport: Transport{
			TLS:            b.Transport.Protocol.Encrypted(),
			Host:           b.Transport.Host,
			HostOfEndpoint: b.Transport.HostOfEndpoint,
			Divided:        b.Release != nil,
		},
		endpointList: &endpointList{
			overload:    &OverloadError{Backend: b.ID, RetryAfter: cfg.RetryAfter},
			maxInFlight: b.MaxInFlight,
			method:      b.Balancing.Method,
			slowStart:   max(int64(b.Balancing.SlowStart), 0),
			entries:     make([]endpointEntry, 0, len(b.Endpoints)),
			shares:      newReleaseShares(b.Release),
		},
	}
	if b.Balancing.Hash.By != "" {
		r.transport.Hash = &b.Balancing.Hash
	}
	if b.Sticky != nil {
		cookie := *b.Sticky
		if cookie.Name == "" {
			cookie.Name = cookieName(b.ID)
		}
		r.transport.Sticky = &cookie
		r.sticky = make(map[string]*endpointEntry, len(b.Endpoints))
	}
	equal := !slices.ContainsFunc(b.Endpoints, func(e route.Endpoint) bool { return e.Weight != 0 })
	seen := make(map[location]bool, len(b.Endpoints))
	for i := range b.Endpoints {
		listed := &b.Endpoints[i]
		at := locationOf(listed)
		// Validate reports duplicates and invalid addresses; the rest is
		// served.
		if seen[at] || at.host == "" && !at.address.IsValid() {
			continue
		}
		seen[at] = true
		m := endpointEntry{endpoint: endpoint(at), weight: uint64(listed.Weight), zone: listed.Zone,
			draining: listed.State == route.EndpointDraining, revision: indexOf(listed.Revision)}
		if equal {
			m.weight = 1
		}
		r.entries = append(r.entries, m)
	}
	r.selectCandidates(cfg.Zone, b.Balancing.PreferZone)
	if r.sticky != nil {
		r.setStickyValues(b.ID, cfg.StickyKey)
	}
	if len(r.all.entries) == 1 && r.sticky == nil && r.shares == nil && r.maxInFlight <= 0 && r.method != route.BalanceLeastTime {
		r.single = r.all.entries[0].endpoint
	}
	return r
}

// selectCandidates finds the endpoints that new clients are sent to.
func (r *endpointSet) selectCandidates(zone string, preferZone bool) {
	var ready []*endpointEntry
	for i := range r.entries {
		m := &r.entries[i]
		if m.draining || m.weight == 0 {
			continue
		}
		ready = append(ready, m)
		if r.slowStart > 0 && m.endpoint.addedAt != 0 {
			r.warmUntil = max(r.warmUntil, m.endpoint.addedAt+r.slowStart)
		}
	}
	if r.shares != nil {
		ready = r.shares.divide(ready, zone, preferZone)
	}
	r.candidateSet = newCandidateSet(ready, zone, preferZone)
}

func newCandidateSet(members []*endpointEntry, zone string, preferZone bool) candidateSet {
	zones := map[string]bool{}
	var near []*endpointEntry
	for _, m := range members {
		zones[m.zone] = true
		if m.zone == zone {
			near = append(near, m)
		}
	}
	s := candidateSet{all: newCandidates(members), zones: uint64(len(zones))}
	if preferZone && zone != "" && len(near) < len(members) {
		s.near = newCandidates(near)
	}
	return s
}

func newCandidates(members []*endpointEntry) candidates {
	f := candidates{entries: members}
	if len(members) == 0 {
		return f
	}
	equal := true
	for _, m := range members {
		f.total += m.weight
		equal = equal && m.weight == members[0].weight
	}
	if equal {
		return f
	}
	f.cumulative = make([]uint64, len(members))
	sum := uint64(0)
	for i, m := range members {
		sum += m.weight
		f.cumulative[i] = sum
	}
	return f
}

func (r *endpointSet) setStickyValues(id route.BackendID, key route.Secret) {
	maker := newStickyHasher(id, key)
	if r.shares != nil {
		release := r.shares.release
		r.shares.parts[stableRevision].mark = maker.mark(release.Stable.Hash)
		r.shares.parts[canaryRevision].mark = maker.mark(release.Canary.Hash)
	}
	for i := range r.entries {
		m := &r.entries[i]
		m.sticky = maker.value(m.endpoint.address)
		r.sticky[m.sticky] = m
		if r.shares != nil {
			m.sticky += r.shares.parts[m.revision].mark
		}
	}
}

// zoneSuffices reports whether the edge's own zone can carry its part of the
// load: at least four fifths of what it would have if all zones had the same
// weight.
func (s *candidateSet) zoneSuffices(ill bool) bool {
	weight := s.near.total
	if ill {
		weight = 0
		for _, m := range s.near.entries {
			if m.endpoint.healthy() {
				weight += m.weight
			}
		}
	}
	return weight > 0 && weight*s.zones*5 >= s.all.total*4
}

// noneHealthy reports whether no healthy endpoint is left.
func (r *endpointSet) noneHealthy() bool {
	return !slices.ContainsFunc(r.all.entries, func(m *endpointEntry) bool { return m.endpoint.healthy() })
}
