package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// compile checks that everything in the spec is supported and allowed by the
// project, and sets project, ignore and applier. The error has all that is
// refused, so that a user need not correct one field after the other.
func (p *reconcileRun) compile() error {
	var refused []refusal.Refusal
	for _, one := range p.refused {
		if !ofOperation(one) {
			refused = append(refused, one)
		}
	}
	if p.destinationError != nil {
		refused = append(refused, *p.destinationError)
	}
	name := p.app.Spec.ProjectName()
	compiled := p.store.project(name)
	switch {
	case compiled == nil:
		refused = append(refused, *refusal.New("spec.project", refusal.Invalid,
			"there is no AppProject %s in namespace %s: make it, or name %s", name, p.ControlNamespace, p.otherProjects()))
	case len(compiled.refused) > 0:
		refused = append(refused, *refusal.New("spec.project", refusal.Invalid, "the AppProject %s is refused: %s", name, refusal.Summary(compiled.refused)))
	default:
		p.project = compiled.project.At(p.destinationCluster.Server, p.destinationCluster.Scope)
		refused = append(refused, p.project.Check(p.located(), p.ControlNamespace)...)
	}
	// Those of the settings come last, so that errors have the index of the spec.
	ignore, err := plan.NewIgnore(slices.Concat(p.app.Spec.IgnoreDifferences, p.Settings().IgnoreDifferences), p.paths)
	if err != nil {
		refused = append(refused, refusal.Refusal{Field: "spec.ignoreDifferences", Reason: refusal.Invalid, Message: err.Error()})
	}
	p.ignore = ignore.WithKnownFields(p.Settings().KnownFields)
	if len(refused) > 0 {
		return &invalidSpec{refused}
	}
	return p.impersonate()
}

// ofOperation reports whether a refusal is about the requested operation. That
// is reported by the operation, and does not stop a comparison.
func ofOperation(refused refusal.Refusal) bool {
	return refused.Field == "operation" || strings.HasPrefix(refused.Field, "operation.") || strings.HasPrefix(refused.Field, "operation[")
}

// located is the Application with its destination as an address, which is what
// projects match.
func (p *reconcileRun) located() *v1alpha1.Application {
	located := *p.app
	located.Spec.Destination = p.destination()
	return &located
}

// destination is the cluster and namespace that objects go to.
func (p *reconcileRun) destination() v1alpha1.ApplicationDestination {
	return v1alpha1.ApplicationDestination{Server: p.destinationCluster.Server, Name: p.destinationCluster.Name, Namespace: p.app.Spec.Destination.Namespace}
}

// gate decides what the Application may touch at its destination.
func (p *reconcileRun) gate() plan.Gate {
	return p.project.Gate(p.destination(), p.destinationCluster.isLocal())
}

// otherProjects names some projects that exist, in the control namespace: a
// tenant must not learn the names of others.
func (p *reconcileRun) otherProjects() string {
	if p.id.Namespace != p.ControlNamespace {
		return "another"
	}
	names := p.store.projectNames()
	if !slices.Contains(names, v1alpha1.DefaultProject) {
		names = append(names, v1alpha1.DefaultProject)
	}
	slices.Sort(names)
	if len(names) > 5 {
		return "one of " + strings.Join(names[:5], ", ") + " and others"
	}
	return "one of " + strings.Join(names, ", ")
}

// impersonate chooses the ServiceAccount whose rights objects are applied with.
func (p *reconcileRun) impersonate() error {
	p.applier = p.destinationCluster.Applier
	namespace, name, ok := p.project.ServiceAccount(p.destination())
	if !ok {
		return nil
	}
	namespace = cmp.Or(namespace, p.id.Namespace)
	applier, err := p.destinationCluster.Applier.As(apply.Impersonation{Namespace: namespace, ServiceAccount: name})
	if err != nil {
		return fmt.Errorf("act as the ServiceAccount %s/%s: %w", namespace, name, err)
	}
	p.applier = applier
	return nil
}

// tracker reads and writes the marks of ownership.
func (p *reconcileRun) tracker() tracking.Tracker {
	return tracking.Tracker{ControlNamespace: p.ControlNamespace}
}
