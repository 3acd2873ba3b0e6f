package project

import (
	"cmp"
	"fmt"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// Check returns why an Application may not be in the project: by its namespace,
// its sources, its destination, or because no ServiceAccount is given for that.
func (p *Project) Check(app *v1alpha1.Application, controlNamespace string) []refusal.Refusal {
	var refused []refusal.Refusal
	refuse := func(field, format string, args ...any) {
		refused = append(refused, *refusal.New(field, refusal.NotAllowed, format, args...))
	}
	if app.Namespace != controlNamespace && !p.AllowsNamespace(app.Namespace) {
		refuse("spec.project", "Applications in namespace %s may not be in project %s: spec.sourceNamespaces of the AppProject does not have it: add it there",
			app.Namespace, p.name)
	}
	for i, source := range app.Spec.AllSources() {
		field := "spec.source"
		if len(app.Spec.Sources) > 0 {
			field = fmt.Sprintf("spec.sources[%d]", i)
		}
		if _, err := p.Admit(source); err != nil {
			refuse(field+".repoURL", "%s", err.(*refusal.Refusal).Message)
		}
		if source.Plugin == nil || source.Plugin.Name == "" {
			continue
		}
		if err := p.AdmitPlugin(source.Plugin.Name); err != nil {
			refuse(field+".plugin", "%s", err.(*refusal.Refusal).Message)
		}
	}
	destination := Complete(app.Spec.Destination)
	switch {
	case !p.reachesCluster():
		refuse("spec.destination", "project %s allows only clusters of its own: write project: %s into the Secret of the cluster, or remove spec.permitOnlyProjectScopedClusters of the AppProject",
			p.name, p.name)
	case !p.targets.allow(destination):
		refuse("spec.destination", "project %s does not allow %s: add it to spec.destinations of the AppProject, or remove the rule with ! that forbids it",
			p.title(), describe(destination))
	}
	if !p.HasAccount(app.Spec.Destination) {
		refuse("spec.destination", "project %s has no ServiceAccount for %s: add one to spec.destinationServiceAccounts of the AppProject",
			p.title(), describe(destination))
	}
	return refused
}

// AllowsNamespace reports whether Applications of the project may be in a
// namespace that is not the control namespace.
func (p *Project) AllowsNamespace(namespace string) bool { return anyMatches(p.namespaces, namespace) }

// AllowsCluster reports whether anything may go to a cluster, in any namespace.
func (p *Project) AllowsCluster(server, name string) bool {
	if !p.reachesCluster() {
		return false
	}
	cluster := Complete(v1alpha1.ApplicationDestination{Server: server, Name: name})
	found := false
	for i := range p.targets {
		t := &p.targets[i]
		if t.server.deny && (cluster.Server == "" || t.server.Match(cluster.Server)) ||
			t.name.deny && (cluster.Name == "" || t.name.Match(cluster.Name)) {
			return false
		}
		found = found || !t.denies() && t.hasCluster(cluster)
	}
	return found
}

// HasAccount reports whether it is decided whose rights count at a destination:
// a ServiceAccount of the project fits, or the project has none at all.
func (p *Project) HasAccount(destination v1alpha1.ApplicationDestination) bool {
	_, _, ok := p.ServiceAccount(destination)
	return ok || len(p.accounts) == 0
}

// AllowsLookup reports whether charts may read objects that the project may
// deploy. A project with ServiceAccounts has only their rights, and the agent
// reads with its own.
func (p *Project) AllowsLookup() bool { return p.lookup && len(p.accounts) == 0 }

// ServiceAccount is whose rights objects are applied with: the first of the
// project's that fits the destination of an Application. Without one our own
// count. An empty namespace is that of the Application: neither the account nor
// the destination names one.
func (p *Project) ServiceAccount(destination v1alpha1.ApplicationDestination) (namespace, name string, ok bool) {
	completed := Complete(destination)
	for _, account := range p.accounts {
		if !account.server.Match(completed.Server) || !account.namespace.Match(completed.Namespace) {
			continue
		}
		if account.home != "" {
			return account.home, account.name, true
		}
		return completed.Namespace, account.name, true
	}
	return "", "", false
}

func describe(destination v1alpha1.ApplicationDestination) string {
	cluster := cmp.Or(destination.Server, destination.Name)
	if destination.Namespace == "" {
		return fmt.Sprintf("the cluster %.100s without a namespace", cluster)
	}
	return fmt.Sprintf("namespace %.100s of the cluster %.100s", destination.Namespace, cluster)
}
