package controller

import (
	"slices"
	"strings"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/route"
)

// gatewayScope decides which Gateways this edge listens for, where each has a Deployment of
// its own: in the Pods of a Gateway that one alone, and in the others none. All of them
// have all rules: the owner of a host is decided by the routes of all Gateways.
type gatewayScope struct {
	limited bool
	// namespace and name are those of the Gateway; empty for none.
	namespace, name string
}

func newGatewayScope(g *config.KubernetesGateway) gatewayScope {
	if g == nil {
		return gatewayScope{}
	}
	namespace, name, _ := strings.Cut(g.Gateway, "/")
	return gatewayScope{limited: g.Gateway != "" || g.Deployment != "", namespace: namespace, name: name}
}

// dedicated reports whether this edge is one of the Pods of a Gateway.
func (s gatewayScope) dedicated() bool { return s.name != "" }

// narrow returns a change without the listeners of other Gateways.
func (s gatewayScope) narrow(change *route.Change) *route.Change {
	if !s.limited || change.Listeners.Empty() {
		return change
	}
	others := func(id route.ListenerID) bool { return id.Namespace != s.namespace || id.Name != s.name }
	foreign := func(l *route.Listener) bool { return others(l.ID) }
	next := *change
	next.Listeners.Added = slices.DeleteFunc(slices.Clone(change.Listeners.Added), foreign)
	next.Listeners.Changed = slices.DeleteFunc(slices.Clone(change.Listeners.Changed), foreign)
	next.Listeners.Removed = slices.DeleteFunc(slices.Clone(change.Listeners.Removed), others)
	return &next
}
