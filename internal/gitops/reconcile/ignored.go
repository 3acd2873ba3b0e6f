package reconcile

import "slipway.dev/slipway/api/argo/v1alpha1"

// ignoredFields are the conditions for the fields of the Application and of its
// project that are accepted and have no effect. An AppProject has no conditions of
// its own, so that its Applications show them.
func (p *reconcileRun) ignoredFields() []v1alpha1.ApplicationCondition {
	var conditions []v1alpha1.ApplicationCondition
	for _, warning := range p.app.Warnings {
		conditions = append(conditions, condition(v1alpha1.ConditionIgnoredFieldWarning, warning.String()))
	}
	name := p.app.Spec.ProjectName()
	if found := p.store.project(name); found != nil {
		for _, warning := range found.warnings {
			conditions = append(conditions, condition(v1alpha1.ConditionIgnoredFieldWarning, "AppProject "+name+": "+warning.String()))
		}
	}
	return conditions
}
