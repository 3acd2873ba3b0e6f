package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
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
}

// Destinations are the clusters beside the one that Applications are read from.
// Whoever keeps them runs their caches, tells Controller.Changed of their objects,
// and Controller.DestinationsChanged when one comes, goes or is replaced.
type Destinations interface {
	// All are the clusters that are known at the moment. Each one stays the same
	// for as long as its objects are.
	All() []*Destination
	// Refusal is why a cluster that is not among them cannot be deployed to, by its
	// address or else by its name; empty if there is nothing about it.
	Refusal(server, name string) string
}

// home is the cluster that Applications are read from.
func (c *Controller) home() *Destination {
	return &Destination{
		Server: project.LocalServer, Name: project.LocalName,
		Live: c.Live, Kinds: c.Kinds, Applier: c.Applier,
	}
}

// destinations are all clusters, home first.
func (c *Controller) destinations() []*Destination {
	all := []*Destination{c.home()}
	if c.Destinations != nil {
		all = append(all, c.Destinations.All()...)
	}
	return all
}

// locate finds the cluster that an Application is for, by its address or by its
// name. Without either it is the one that the Application is in.
func (c *Controller) locate(wanted v1alpha1.ApplicationDestination) (*Destination, *v1alpha1.Refused) {
	wanted = project.Complete(wanted)
	if wanted.Server == project.LocalServer {
		return c.home(), nil
	}
	all := c.destinations()
	for _, one := range all {
		if wanted.Server != "" && strings.TrimSuffix(wanted.Server, "/") == one.Server || wanted.Server == "" && wanted.Name == one.Name {
			return one, nil
		}
	}
	if c.Destinations != nil {
		if refusal := c.Destinations.Refusal(wanted.Server, wanted.Name); refusal != "" {
			return c.home(), &v1alpha1.Refused{Field: "spec.destination", Reason: v1alpha1.ReasonInvalid,
				Message: fmt.Sprintf("the cluster %s cannot be used: %s", wanted.Server+wanted.Name, refusal)}
		}
	}
	names := make([]string, 0, len(all))
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return c.home(), &v1alpha1.Refused{Field: "spec.destination", Reason: v1alpha1.ReasonInvalid, Message: fmt.Sprintf(
		"there is no cluster %s: add it with slipway cluster add, or name one of %s", wanted.Server+wanted.Name, strings.Join(names, ", "))}
}

// DestinationsChanged tells that a cluster came, went or was replaced: the
// Applications that are for others than this one are looked at again.
func (c *Controller) DestinationsChanged() {
	c.ask(c.book.elsewhere())
}
