package route

import (
	"iter"
	"maps"
	"slices"
)

// Index is a table that changes: its elements are indexed by identity, so that a
// change costs as much as it changes and not as much as the table has. It is not
// safe for concurrent use.
type Index struct {
	entryPoints  []string
	listeners    map[ListenerID]*Listener
	rules        map[ID]*Rule
	tcpRoutes    map[TCPRouteID]*TCPRoute
	backends     map[BackendID]*Backend
	certificates map[CertificateID]*Certificate
	authorities  map[AuthorityID]*Authority
	tlsOptions   map[TLSOptionsID]*TLSOptions
	// table caches the result of Table, nil after a change.
	table *Table
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		listeners:    map[ListenerID]*Listener{},
		rules:        map[ID]*Rule{},
		tcpRoutes:    map[TCPRouteID]*TCPRoute{},
		backends:     map[BackendID]*Backend{},
		certificates: map[CertificateID]*Certificate{},
		authorities:  map[AuthorityID]*Authority{},
		tlsOptions:   map[TLSOptionsID]*TLSOptions{},
	}
}

// Fit returns the change relative to the contents of this Index: an addition of an
// element that exists becomes a change, a change of one that does not exist an
// addition, and a removal of one that does not exist is dropped. It also separates
// the backends of which only the endpoints changed, whose pools stay.
func (b *Index) Fit(change *Change) *Change {
	fit := &Change{
		EntryPoints: change.EntryPoints, NewEntryPoints: change.NewEntryPoints,
		Listeners:    fitDelta(b.listeners, &change.Listeners, func(v *Listener) ListenerID { return v.ID }),
		Rules:        fitDelta(b.rules, &change.Rules, func(v *Rule) ID { return v.ID }),
		TCPRoutes:    fitDelta(b.tcpRoutes, &change.TCPRoutes, func(v *TCPRoute) TCPRouteID { return v.ID }),
		Certificates: fitDelta(b.certificates, &change.Certificates, func(v *Certificate) CertificateID { return v.ID }),
		Authorities:  fitDelta(b.authorities, &change.Authorities, func(v *Authority) AuthorityID { return v.ID }),
		TLSOptions:   fitDelta(b.tlsOptions, &change.TLSOptions, func(v *TLSOptions) TLSOptionsID { return v.ID }),
	}
	backends := change.Backends.Delta
	backends.Changed = slices.Concat(backends.Changed, change.Backends.EndpointsChanged)
	fit.Backends.Delta = fitDelta(b.backends, &backends, func(v *Backend) BackendID { return v.ID })
	fit.Backends.separateEndpoints(b.backends)
	return fit
}

// fitDelta is Fit for one list. A value that is the same pointer has not changed.
func fitDelta[K comparable, V any](known map[K]*V, delta *Delta[K, V], key func(*V) K) Delta[K, V] {
	var fit Delta[K, V]
	for _, value := range slices.Concat(delta.Added, delta.Changed) {
		switch before, there := known[key(value)]; {
		case !there:
			fit.Added = append(fit.Added, value)
		case before != value:
			fit.Changed = append(fit.Changed, value)
		}
	}
	for _, id := range delta.Removed {
		if _, there := known[id]; there {
			fit.Removed = append(fit.Removed, id)
		}
	}
	return fit
}

// Apply applies a change.
func (b *Index) Apply(change *Change) {
	b.table = nil
	if change.NewEntryPoints {
		b.entryPoints = change.EntryPoints
	}
	applyDelta(b.listeners, &change.Listeners, func(v *Listener) ListenerID { return v.ID })
	applyDelta(b.rules, &change.Rules, func(v *Rule) ID { return v.ID })
	applyDelta(b.tcpRoutes, &change.TCPRoutes, func(v *TCPRoute) TCPRouteID { return v.ID })
	applyDelta(b.backends, &change.Backends.Delta, func(v *Backend) BackendID { return v.ID })
	for _, backend := range change.Backends.EndpointsChanged {
		b.backends[backend.ID] = backend
	}
	applyDelta(b.certificates, &change.Certificates, func(v *Certificate) CertificateID { return v.ID })
	applyDelta(b.authorities, &change.Authorities, func(v *Authority) AuthorityID { return v.ID })
	applyDelta(b.tlsOptions, &change.TLSOptions, func(v *TLSOptions) TLSOptionsID { return v.ID })
}

// applyDelta applies removals first, so that an identity in two lists ends up
// present.
func applyDelta[K comparable, V any](known map[K]*V, delta *Delta[K, V], key func(*V) K) {
	for _, id := range delta.Removed {
		delete(known, id)
	}
	for _, value := range delta.Changed {
		known[key(value)] = value
	}
	for _, value := range delta.Added {
		known[key(value)] = value
	}
}

// Table returns all elements, in no order. It is built again after a change only.
func (b *Index) Table() *Table {
	if b.table == nil {
		b.table = &Table{
			EntryPoints:  b.entryPoints,
			Listeners:    slices.Collect(maps.Values(b.listeners)),
			Rules:        slices.Collect(maps.Values(b.rules)),
			TCPRoutes:    slices.Collect(maps.Values(b.tcpRoutes)),
			Backends:     slices.Collect(maps.Values(b.backends)),
			Certificates: slices.Collect(maps.Values(b.certificates)),
			Authorities:  slices.Collect(maps.Values(b.authorities)),
			TLSOptions:   slices.Collect(maps.Values(b.tlsOptions)),
		}
	}
	return b.table
}

// TCPRoutes returns the TCP routes, in no order.
func (b *Index) TCPRoutes() iter.Seq[*TCPRoute] { return maps.Values(b.tcpRoutes) }

// Certificate returns a certificate, nil if it does not exist.
func (b *Index) Certificate(id CertificateID) *Certificate { return b.certificates[id] }

// Authority returns an authority, nil if it does not exist.
func (b *Index) Authority(id AuthorityID) *Authority { return b.authorities[id] }

// TLS returns the part of Table that handshakes need.
func (b *Index) TLS() *Table {
	return &Table{
		Certificates: slices.Collect(maps.Values(b.certificates)),
		Authorities:  slices.Collect(maps.Values(b.authorities)),
		TLSOptions:   slices.Collect(maps.Values(b.tlsOptions)),
	}
}

// CheckTLS validates the listeners, certificates, authorities and TLS options of a
// change. A Program is compiled without them, so compiling it does not find their problems.
func (b *Index) CheckTLS(change *Change) []Problem {
	var problems []Problem
	for _, listener := range slices.Concat(change.Listeners.Added, change.Listeners.Changed) {
		problems = append(problems, listener.Validate()...)
	}
	for _, certificate := range slices.Concat(change.Certificates.Added, change.Certificates.Changed) {
		problems = append(problems, certificate.Validate()...)
	}
	coming := make(map[AuthorityID]bool)
	for _, authority := range slices.Concat(change.Authorities.Added, change.Authorities.Changed) {
		problems = append(problems, authority.Validate()...)
		coming[authority.ID] = true
	}
	refs := references{authorities: coming}
	for _, options := range slices.Concat(change.TLSOptions.Added, change.TLSOptions.Changed) {
		for _, id := range options.ClientAuthorities {
			if _, there := b.authorities[id]; there && !slices.Contains(change.Authorities.Removed, id) {
				coming[id] = true
			}
		}
		problems = append(problems, refs.checkTLSOptions(options)...)
	}
	return problems
}
