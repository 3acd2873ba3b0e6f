package controller

import (
	"net/netip"
	"slices"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// lastGoodTable is the table that an earlier process served of a cluster, with
// the identities that the cluster has sent since. Objects of a cluster have a
// namespace; those of a file have none, and come from the file again. The
// provider's lock guards it.
type lastGoodTable struct {
	table *route.Table
	named map[route.Identity]bool
}

// newLastGoodTable returns the cluster's part of a saved table, with no
// identity recorded.
func newLastGoodTable(all *route.Table) *lastGoodTable {
	return &lastGoodTable{table: partOf(all, true), named: map[route.Identity]bool{}}
}

// partOf returns the part of a table that comes from a cluster, or from a file.
// Rules that entry points generate are in neither: they come from the options.
func partOf(all *route.Table, cluster bool) *route.Table {
	own := func(namespace string) bool { return (namespace != "") == cluster }
	return &route.Table{
		Listeners:    only(all.Listeners, func(v *route.Listener) bool { return own(v.ID.Namespace) }),
		Rules:        only(all.Rules, func(v *route.Rule) bool { return own(v.ID.Namespace) && (v.ID.Kind != "") == cluster }),
		TCPRoutes:    only(all.TCPRoutes, func(v *route.TCPRoute) bool { return own(v.ID.Namespace) }),
		Backends:     only(all.Backends, func(v *route.Backend) bool { return own(v.ID.Namespace) }),
		Certificates: only(all.Certificates, func(v *route.Certificate) bool { return own(v.ID.Namespace) }),
		Authorities:  only(all.Authorities, func(v *route.Authority) bool { return own(v.ID.Namespace) }),
		TLSOptions:   only(all.TLSOptions, func(v *route.TLSOptions) bool { return own(v.ID.Namespace) }),
	}
}

// only returns the values that a predicate accepts. It copies the list: the
// table may be shared.
func only[V any](values []*V, of func(*V) bool) []*V {
	return slices.DeleteFunc(slices.Clone(values), func(v *V) bool { return !of(v) })
}

// servedAddresses returns the addresses of the pool that the Gateways of the last good
// table had; nil without one.
func servedAddresses(options *config.Edge) map[snapshot.Ref]netip.Addr {
	if g := options.Providers.KubernetesGateway; g == nil || len(g.Addresses) == 0 || options.LastGood.Dir == "" {
		return nil
	}
	table, err := lastgood.Load(options.LastGood.Dir)
	if err != nil {
		return nil // the first start, or a file that is reported when its routes are needed
	}
	served := map[snapshot.Ref]netip.Addr{}
	for _, listener := range table.Listeners {
		served[snapshot.Ref{Kind: snapshot.Gateway, Namespace: listener.ID.Namespace, Name: listener.ID.Name}] = listener.Address.Addr()
	}
	return served
}

// change returns the change from nothing to the table.
func (i *lastGoodTable) change() *route.Change {
	change := route.Diff(nil, i.table)
	return &change
}

// note records the identities in a change of the cluster: from now on the
// cluster decides about them, also by removing them.
func (i *lastGoodTable) note(change *route.Change) {
	markDelta(i.named, &change.Listeners, func(v *route.Listener) route.ListenerID { return v.ID })
	markDelta(i.named, &change.Rules, func(v *route.Rule) route.ID { return v.ID })
	markDelta(i.named, &change.TCPRoutes, func(v *route.TCPRoute) route.TCPRouteID { return v.ID })
	markDelta(i.named, &change.Backends.Delta, func(v *route.Backend) route.BackendID { return v.ID })
	markDelta(i.named, &change.Certificates, func(v *route.Certificate) route.CertificateID { return v.ID })
	markDelta(i.named, &change.Authorities, func(v *route.Authority) route.AuthorityID { return v.ID })
	markDelta(i.named, &change.TLSOptions, func(v *route.TLSOptions) route.TLSOptionsID { return v.ID })
}

// markDelta records the identities of one kind, whether they were added,
// changed or removed.
func markDelta[K interface {
	comparable
	route.Identity
}, V any](named map[route.Identity]bool, delta *route.Delta[K, V], key func(*V) K) {
	for _, value := range slices.Concat(delta.Added, delta.Changed) {
		named[key(value)] = true
	}
	for _, id := range delta.Removed {
		named[id] = true
	}
}

// rest returns the removal of every object that the cluster did not send: it
// was deleted while no edge watched.
func (i *lastGoodTable) rest() *route.Change {
	all := i.change()
	change := &route.Change{}
	change.Listeners.Removed = unnamed(i.named, all.Listeners.Added, func(v *route.Listener) route.ListenerID { return v.ID })
	change.Rules.Removed = unnamed(i.named, all.Rules.Added, func(v *route.Rule) route.ID { return v.ID })
	change.TCPRoutes.Removed = unnamed(i.named, all.TCPRoutes.Added, func(v *route.TCPRoute) route.TCPRouteID { return v.ID })
	change.Backends.Removed = unnamed(i.named, all.Backends.Added, func(v *route.Backend) route.BackendID { return v.ID })
	change.Certificates.Removed = unnamed(i.named, all.Certificates.Added, func(v *route.Certificate) route.CertificateID { return v.ID })
	change.Authorities.Removed = unnamed(i.named, all.Authorities.Added, func(v *route.Authority) route.AuthorityID { return v.ID })
	change.TLSOptions.Removed = unnamed(i.named, all.TLSOptions.Added, func(v *route.TLSOptions) route.TLSOptionsID { return v.ID })
	return change
}

// unnamed returns the identities of the values that were not recorded, in the
// order of the table.
func unnamed[K interface {
	comparable
	route.Identity
}, V any](named map[route.Identity]bool, values []*V, key func(*V) K) []K {
	var left []K
	for _, value := range values {
		if id := key(value); !named[id] {
			left = append(left, id)
		}
	}
	return left
}
