package project

import (
	"slices"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// ClusterScope is what the Secret of a cluster says about projects and objects. Without
// any of it the cluster is one for all projects, whose destinations decide.
type ClusterScope struct {
	// Project is the AppProject that the cluster belongs to; empty is none.
	Project string
	// Namespaces are those of the cluster that may be used; empty is all.
	Namespaces []string
	// OnlyNamespaced: what has no namespace may not be deployed.
	OnlyNamespaced bool
}

// exact matches one text.
type exact string

// Match compares without patterns: an address may have brackets in it.
func (e exact) Match(text string) bool { return text == string(e) }

// At is the project at a cluster. One that belongs to the project is among its
// destinations, with the namespaces of its Secret, unless a rule with ! forbids it.
func (p *Project) At(server string, scope ClusterScope) *Project {
	at := *p
	if scope.OnlyNamespaced {
		at.onlyNamespaces = scope.Namespaces
	}
	if scope.Project == "" || scope.Project != p.name {
		return &at
	}
	at.owns, at.targets = true, slices.Clone(p.targets)
	own := target{server: rule{matcher: exact(server)}, name: rule{matcher: never{}}, namespace: rule{matcher: always{}}}
	if len(scope.Namespaces) == 0 {
		at.targets = append(at.targets, own)
	}
	// They name no namespace: the control namespace is reached by a destination only.
	for _, namespace := range scope.Namespaces {
		own.namespace.matcher = exact(namespace)
		at.targets = append(at.targets, own)
	}
	return &at
}

// reachesCluster reports whether the project may use the cluster that it is at, as
// far as permitOnlyProjectScopedClusters decides that. A project that is at no
// cluster owns none.
func (p *Project) reachesCluster() bool { return p.owns || !p.onlyOwn }

// allowsWithoutNamespace reports whether an object without a namespace may be at the
// cluster. Namespaces that the Secret of the cluster names may be created.
func (p *Project) allowsWithoutNamespace(key tracking.Key) bool {
	isNamespace := key.Group == "" && key.Kind == "Namespace"
	return len(p.onlyNamespaces) == 0 || isNamespace && slices.Contains(p.onlyNamespaces, key.Name)
}
