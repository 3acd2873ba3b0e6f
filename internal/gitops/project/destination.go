package project

import (
	"slices"
	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/glob"
)

// The names of the cluster that we run in.
const (
	LocalServer = "https://kubernetes.default.svc"
	LocalName   = "in-cluster"
)

// Complete gives the cluster that we run in both of its names, as patterns can be
// for either. A destination that names no cluster is that one. Others stay as
// they are.
func Complete(destination v1alpha1.ApplicationDestination) v1alpha1.ApplicationDestination {
	nameless := destination.Server == "" && destination.Name == ""
	if nameless || destination.Server == LocalServer || destination.Server == "" && destination.Name == LocalName {
		destination.Server, destination.Name = LocalServer, LocalName
	}
	return destination
}

// target is one of the destinations of an AppProject. If one of its fields has a
// !, it forbids and allows nothing.
type target struct{ server, name, namespace rule }

func (t *target) denies() bool { return t.server.deny || t.name.deny || t.namespace.deny }

// allows reports whether the target is an allowing one that has the destination.
func (t *target) allows(destination v1alpha1.ApplicationDestination) bool {
	return !t.denies() && t.hasCluster(destination) && t.namespace.Match(destination.Namespace)
}

func (t *target) hasCluster(destination v1alpha1.ApplicationDestination) bool {
	return destination.Server != "" && t.server.Match(destination.Server) ||
		destination.Name != "" && t.name.Match(destination.Name)
}

// forbids reports whether one of the fields with ! has the destination. As in
// Argo CD the other fields do not matter then, and a cluster whose name or
// address is not known is forbidden by a rule about it.
func (t *target) forbids(destination v1alpha1.ApplicationDestination) bool {
	return t.server.deny && (destination.Server == "" || t.server.Match(destination.Server)) ||
		t.name.deny && (destination.Name == "" || t.name.Match(destination.Name)) ||
		t.namespace.deny && t.namespace.Match(destination.Namespace)
}

// targets are the destinations of an AppProject.
type targets []target

func (all targets) allow(destination v1alpha1.ApplicationDestination) bool {
	allowed := false
	for i := range all {
		if all[i].forbids(destination) {
			return false
		}
		allowed = allowed || all[i].allows(destination)
	}
	return allowed
}

// names reports whether an allowing target has the namespace by its name, and
// not by a pattern.
func (all targets) names(destination v1alpha1.ApplicationDestination) bool {
	return slices.ContainsFunc(all, func(one target) bool {
		return one.allows(destination) && one.namespace.literal == destination.Namespace
	})
}

// compileTarget reads a destination. An empty server or name is a pattern that
// has nothing, because the cluster has one.
func (c *compiler) compileTarget(destination v1alpha1.ApplicationDestination, place string) target {
	return target{
		server:    c.rule(parseGlob, destination.Server, place+".server"),
		name:      c.rule(parseGlob, destination.Name, place+".name"),
		namespace: c.rule(parseGlob, destination.Namespace, place+".namespace"),
	}
}

func parseGlob(text string) (rule, error) { return parseRule(text, glob.Compile) }
