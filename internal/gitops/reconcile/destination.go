package reconcile

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/project"
)

// Destination is a cluster that Applications deploy to.
type Destination struct {
	// Server and Name are what Applications call it.
	Server, Name string
	Live         *live.Cache
	Kinds        *live.Kinds
	Applier      *apply.Applier
	// Scope is what the Secret of the cluster says about projects; the local one is
	// for all of them.
	Scope project.ClusterScope
	// IsAnother reports whether it is known to be another cluster than the local
	// one, which a Secret can describe under a second address; nil is the local
	// one.
	IsAnother func() bool
}

// isLocal reports whether it is the local cluster, or may be: the control
// namespace is there.
func (d *Destination) isLocal() bool { return d.IsAnother == nil || !d.IsAnother() }

// Destinations are the clusters beside the local one. Their owner runs the
// caches, reports changes of objects to Controller.Changed, and clusters that
// come, go or are replaced to Controller.DestinationsChanged.
type Destinations interface {
	// All returns the clusters of the moment. A Destination stays the same
	// value for as long as its cache does: sessions compare it.
	All() []*Destination
	// Refusal is why a cluster that is not among them cannot be deployed to, by its
	// address or else by its name; empty if there is nothing about it.
	Refusal(server, name string) string
}

// local is the cluster that Applications are read from.
func (c *Controller) local() *Destination {
	return &Destination{
		Server: project.LocalServer, Name: project.LocalName,
		Live: c.Live, Kinds: c.Kinds, Applier: c.Applier,
	}
}

// destinations returns all clusters, the local one first.
func (c *Controller) destinations() []*Destination {
	all := []*Destination{c.local()}
	if c.Destinations != nil {
		all = append(all, c.Destinations.All()...)
	}
	return all
}

// locate finds the cluster of an Application by address or by name. Without
// either it is the local one. For a cluster that does not exist it returns the
// local one and the refusal, so that a run always has a cache to read. The
// refusal lists clusters in the control namespace only: a tenant must not learn
// the names of others.
func (c *Controller) locate(app *v1alpha1.Application) (*Destination, *refusal.Refusal) {
	wanted := project.Complete(app.Spec.Destination)
	if wanted.Server == project.LocalServer {
		return c.local(), nil
	}
	all := c.destinations()
	for _, one := range all {
		if wanted.Server != "" && strings.TrimSuffix(wanted.Server, "/") == one.Server || wanted.Server == "" && wanted.Name == one.Name {
			return one, nil
		}
	}
	if c.Destinations != nil {
		if why := c.Destinations.Refusal(wanted.Server, wanted.Name); why != "" {
			return c.local(), refusal.New("spec.destination", refusal.Invalid, "the cluster %s cannot be used: %s", wanted.Server+wanted.Name, why)
		}
	}
	others := "another"
	if app.Namespace == c.ControlNamespace {
		names := make([]string, 0, len(all))
		for _, one := range all {
			names = append(names, one.Name)
		}
		slices.Sort(names)
		others = "one of " + strings.Join(names, ", ")
	}
	return c.local(), refusal.New("spec.destination", refusal.Invalid,
		"there is no cluster %s: add it with slipway cluster add NAME, or name %s", wanted.Server+wanted.Name, others)
}

// DestinationsChanged enqueues the Applications of other clusters.
func (c *Controller) DestinationsChanged() {
	c.enqueue(c.store.remote())
}
