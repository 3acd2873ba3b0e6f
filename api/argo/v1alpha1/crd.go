package v1alpha1

import (
	"reflect"

	"slipway.dev/slipway/api/declare"
)

// Kinds lists the kinds. The status of Applications and ApplicationSets is a
// subresource, so that a tenant who writes Applications does not write what they
// report. Argo CD's definition of Applications does not have it: the runtime works
// with both (decision 0036 in docs/decisions). Unknown fields are preserved in
// spec and operation, where they may be limits.
func Kinds() []declare.Kind {
	kinds := []declare.Kind{
		{
			Name: KindApplication, Plural: "applications", ShortNames: []string{"app", "apps"},
			Description: "A set of objects in Git and the cluster that they are deployed to.",
			Spec:        reflect.TypeFor[ApplicationSpec](), Status: reflect.TypeFor[ApplicationStatus](), Operation: reflect.TypeFor[Operation](),
			StatusSubresource: true,
			Columns: []declare.Column{
				{Name: "Sync Status", Type: "string", JSONPath: ".status.sync.status"},
				{Name: "Health Status", Type: "string", JSONPath: ".status.health.status"},
				{Name: "Revision", Type: "string", JSONPath: ".status.sync.revision", Priority: 10},
				{Name: "Project", Type: "string", JSONPath: ".spec.project", Priority: 10},
			},
		},
		{
			Name: KindAppProject, Plural: "appprojects", ShortNames: []string{"appproj", "appprojs"},
			Description: "Sources, destinations and kinds that Applications of the project may use.",
			Spec:        reflect.TypeFor[AppProjectSpec](), Status: reflect.TypeFor[AppProjectStatus](),
		},
		{
			Name: KindApplicationSet, Plural: "applicationsets", ShortNames: []string{"appset", "appsets"},
			Description: "Generates Applications from a template.",
			Spec:        reflect.TypeFor[ApplicationSetSpec](), Status: reflect.TypeFor[ApplicationSetStatus](), StatusSubresource: true,
		},
	}
	for i := range kinds {
		kinds[i].Group, kinds[i].Version = Group, Version
		kinds[i].Schema = declare.SchemaWriter{Foreign: true, KeepUnknown: true, Types: types}
	}
	return kinds
}

// CRDs returns the CustomResourceDefinitions of all kinds as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
