package v1alpha1

import (
	"reflect"

	"slipway.dev/slipway/api/declare"
)

// Kinds lists the kinds that are declared. Names, columns and subresources are those of
// Argo Rollouts, so that clients do not notice whose definition a cluster has. Unknown
// fields are preserved in a spec, where Decode refuses them.
func Kinds() []declare.Kind {
	return append(analysisKinds(), declare.Kind{
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
	})
}

// analysisKinds are the kinds of analysis. Their schemas name no fields: runs are checked
// by their controller, which reports what is wrong in their status. AnalysisRuns have no
// subresource for the status, because Argo Rollouts' own controller would write none.
func analysisKinds() []declare.Kind {
	free := declare.SchemaWriter{Foreign: true, KeepUnknown: true, Types: map[reflect.Type]declare.ForeignType{
		reflect.TypeFor[AnalysisTemplateSpec](): {Schema: freeSchema()},
		reflect.TypeFor[AnalysisRunSpec]():      {Schema: freeSchema()},
		reflect.TypeFor[AnalysisRunStatus]():    {Schema: freeSchema()},
	}}
	age := declare.Column{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}
	template := declare.Kind{
		Group: Group, Version: Version, Name: KindAnalysisTemplate, Plural: AnalysisTemplateResource().Resource, ShortNames: []string{"at"},
		Description: "Metrics of AnalysisRuns.", Spec: reflect.TypeFor[AnalysisTemplateSpec](), Columns: []declare.Column{age}, Schema: free,
	}
	ofCluster := template
	ofCluster.Name, ofCluster.Plural, ofCluster.ClusterScope = KindClusterAnalysisTemplate, ClusterAnalysisTemplateResource().Resource, true
	ofCluster.ShortNames = []string{"cat"}
	return []declare.Kind{{
		Group: Group, Version: Version, Name: KindAnalysisRun, Plural: AnalysisRunResource().Resource, ShortNames: []string{"ar"},
		Description: "An analysis and its results.", Spec: reflect.TypeFor[AnalysisRunSpec](), Status: reflect.TypeFor[AnalysisRunStatus](),
		Columns: []declare.Column{{Name: "Status", Type: "string", JSONPath: ".status.phase"}, age}, Schema: free,
	}, template, ofCluster}
}

// CRDs returns the CustomResourceDefinitions of the kinds as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
