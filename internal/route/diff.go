package route

import (
	"cmp"
	"reflect"
	"slices"
)

// Change is the difference between two tables, so that applying it costs as much
// as changed and not as much as the table has.
type Change struct {
	// EntryPoints are the new ones. They are set only with NewEntryPoints.
	EntryPoints    []string
	NewEntryPoints bool

	Listeners    Delta[ListenerID, Listener]
	Rules        Delta[ID, Rule]
	TCPRoutes    Delta[TCPRouteID, TCPRoute]
	Backends     BackendDelta
	Certificates Delta[CertificateID, Certificate]
	Authorities  Delta[AuthorityID, Authority]
	TLSOptions   Delta[TLSOptionsID, TLSOptions]
}

// Delta is the change of one list. An identity is in at most one of the three.
type Delta[K comparable, V any] struct {
	Added []*V
	// Changed are the new values of elements that existed before.
	Changed []*V
	Removed []K
}

// BackendDelta is the change of the backends. Changed has those whose transport or
// balancing changed. EndpointsChanged has those of which only the endpoints
// changed: their pools and connections stay.
type BackendDelta struct {
	Delta[BackendID, Backend]
	EndpointsChanged []*Backend
}

// Empty reports whether nothing changed.
func (d *Delta[K, V]) Empty() bool {
	return len(d.Added)+len(d.Changed)+len(d.Removed) == 0
}

// Empty reports whether nothing changed.
func (c *Change) Empty() bool {
	return !c.NewEntryPoints && c.Listeners.Empty() && c.Rules.Empty() && c.TCPRoutes.Empty() && c.Backends.Empty() &&
		len(c.Backends.EndpointsChanged) == 0 && c.Certificates.Empty() && c.Authorities.Empty() && c.TLSOptions.Empty()
}

// Diff returns the change from one table to another; nil is the empty table.
// Both tables are free of duplicate identities. The lists of the change are in
// the order of their tables.
func Diff(from, to *Table) Change {
	from = cmp.Or(from, &Table{})
	to = cmp.Or(to, &Table{})
	change := Change{
		Listeners:    diffList(from.Listeners, to.Listeners, func(v *Listener) ListenerID { return v.ID }, same),
		Rules:        diffList(from.Rules, to.Rules, func(v *Rule) ID { return v.ID }, sameRule),
		TCPRoutes:    diffList(from.TCPRoutes, to.TCPRoutes, func(v *TCPRoute) TCPRouteID { return v.ID }, sameTCPRoute),
		Certificates: diffList(from.Certificates, to.Certificates, func(v *Certificate) CertificateID { return v.ID }, same),
		Authorities:  diffList(from.Authorities, to.Authorities, func(v *Authority) AuthorityID { return v.ID }, same),
		TLSOptions:   diffList(from.TLSOptions, to.TLSOptions, func(v *TLSOptions) TLSOptionsID { return v.ID }, same),
	}
	change.Backends = diffBackends(from.Backends, to.Backends)
	if !slices.Equal(slices.Sorted(slices.Values(from.EntryPoints)), slices.Sorted(slices.Values(to.EntryPoints))) {
		change.NewEntryPoints = true
		change.EntryPoints = to.EntryPoints
	}
	return change
}

// diffList compares two lists by identity.
func diffList[K comparable, V any](from, to []*V, key func(*V) K, equal func(a, b *V) bool) Delta[K, V] {
	var delta Delta[K, V]
	from, to = withoutCommonEnds(from, to)
	old := make(map[K]*V, len(from))
	for _, value := range from {
		old[key(value)] = value
	}
	for _, value := range to {
		before, known := old[key(value)]
		switch {
		case !known:
			delta.Added = append(delta.Added, value)
		case before != value && !equal(before, value):
			delta.Changed = append(delta.Changed, value)
		}
		delete(old, key(value))
	}
	for _, value := range from {
		if _, gone := old[key(value)]; gone {
			delta.Removed = append(delta.Removed, key(value))
		}
	}
	return delta
}

// withoutCommonEnds drops the common start and end of two lists. Tables share their
// values, so usually little is left to compare.
func withoutCommonEnds[V any](a, b []*V) ([]*V, []*V) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// diffBackends separates the backends of which only the endpoints changed, which
// is the most frequent change of a cluster.
func diffBackends(from, to []*Backend) BackendDelta {
	var delta BackendDelta
	from, to = withoutCommonEnds(from, to)
	old := make(map[BackendID]*Backend, len(from))
	for _, backend := range from {
		old[backend.ID] = backend
	}
	delta.Delta = diffList(from, to, func(v *Backend) BackendID { return v.ID }, same)
	delta.separateEndpoints(old)
	return delta
}

// separateEndpoints moves the changed backends of which only the endpoints changed
// from Changed to EndpointsChanged.
func (d *BackendDelta) separateEndpoints(old map[BackendID]*Backend) {
	changed := d.Changed
	d.Changed = nil
	for _, backend := range changed {
		if sameApartFromEndpoints(old[backend.ID], backend) {
			d.EndpointsChanged = append(d.EndpointsChanged, backend)
		} else {
			d.Changed = append(d.Changed, backend)
		}
	}
}

func same[V any](a, b *V) bool { return reflect.DeepEqual(a, b) }

// sameRule compares the time of creation with Equal, because the same instant has
// several representations.
func sameRule(a, b *Rule) bool {
	x := *a
	x.Created = b.Created
	return a.Created.Equal(b.Created) && reflect.DeepEqual(&x, b)
}

func sameTCPRoute(a, b *TCPRoute) bool {
	x := *a
	x.Created = b.Created
	return a.Created.Equal(b.Created) && reflect.DeepEqual(&x, b)
}

func sameApartFromEndpoints(a, b *Backend) bool {
	x, y := *a, *b
	x.Endpoints, y.Endpoints = nil, nil
	return reflect.DeepEqual(&x, &y)
}
