package v1alpha1

import (
	"reflect"

	"slipway.dev/slipway/api/declare"
)

// Kinds lists the kinds that are declared. Names, columns and subresources are those of
// Argo Rollouts, so that clients do not notice whose definition a cluster has. Unknown
// fields are preserved in a spec, where Decode refuses them.
func Kinds() []declare.Kind {
	return []declare.Kind{{
		Group: Group, Version: Version, Name: KindRollout, Plural: "rollouts", ShortNames: []string{"ro"},
		Description: "A workload whose Pods are replaced in steps or at once.",
		Spec:        reflect.TypeFor[RolloutSpec](), Status: reflect.TypeFor[RolloutStatus](), StatusSubresource: true,
		Scale: &declare.Scale{SpecReplicas: ".spec.replicas", StatusReplicas: ".status.HPAReplicas", LabelSelector: ".status.selector"},
		Columns: []declare.Column{
			{Name: "Desired", Type: "integer", JSONPath: ".spec.replicas"},
			{Name: "Current", Type: "integer", JSONPath: ".status.replicas"},
			{Name: "Up-to-date", Type: "integer", JSONPath: ".status.updatedReplicas"},
			{Name: "Available", Type: "integer", JSONPath: ".status.availableReplicas"},
			{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
		},
		Schema: declare.SchemaWriter{Foreign: true, KeepUnknown: true, Types: types},
	}}
}

// CRDs returns the CustomResourceDefinitions of the kinds as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
