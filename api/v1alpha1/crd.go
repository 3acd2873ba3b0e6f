package v1alpha1

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/declare"
)

// Kind is one of our kinds.
type Kind = declare.Kind

// Kinds lists our kinds. Those that users write have no status: problems are reported
// as Events.
func Kinds() []Kind {
	return []Kind{
		kind("Middleware", "A named list of filters, for the Ingresses that reference it.", reflect.TypeFor[MiddlewareSpec]()),
		kind("TLSOption", "TLS options of the hosts of Ingresses that reference it.", reflect.TypeFor[TLSOptionSpec]()),
		kind("BackendTransport", "Transport options for the Services that reference it: certificates, timeouts and protocol.", reflect.TypeFor[BackendTransportSpec]()),
		releaseKind(),
		releasePolicyKind(),
		kind(KindEnvironment, "Clusters and namespaces that promotions lead to, with their gates.", reflect.TypeFor[EnvironmentSpec]()),
		promotionKind(),
	}
}

// releaseKind declares Release. Its status is a subresource, so that who may change the
// shares need not be who reports the progress.
func releaseKind() Kind {
	k := kind(KindRelease, "Shares of two revisions of a workload. The agent writes it during a release.", reflect.TypeFor[ReleaseSpec]())
	k.Status, k.StatusSubresource, k.Schema.Types = reflect.TypeFor[ReleaseStatus](), true, statusTypes()
	k.Columns = append([]declare.Column{
		{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
		{Name: "Canary", Type: "integer", JSONPath: ".spec.revisions[1].weight"},
		{Name: "Step", Type: "integer", JSONPath: ".status.step"},
		{Name: "Steps", Type: "integer", JSONPath: ".status.steps"},
		{Name: "Message", Type: "string", JSONPath: ".status.message"},
	}, k.Columns...)
	return k
}

// statusTypes are the types of Kubernetes in a status.
func statusTypes() map[reflect.Type]declare.ForeignType {
	return map[reflect.Type]declare.ForeignType{
		reflect.TypeFor[metav1.Time](): {Schema: map[string]any{"type": "string", "format": "date-time"}},
	}
}

// promotionKind declares Promotion. Its status is a subresource: people write the spec
// and the agent the status.
func promotionKind() Kind {
	k := kind(KindPromotion, "One run of a version of a Product through the environments of a PromotionFlow.", reflect.TypeFor[PromotionSpec]())
	k.Status, k.StatusSubresource, k.Schema.Types = reflect.TypeFor[PromotionStatus](), true, statusTypes()
	k.Columns = append([]declare.Column{
		{Name: "Product", Type: "string", JSONPath: ".spec.product"},
		{Name: "Version", Type: "string", JSONPath: ".status.version"},
		{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
		{Name: "Message", Type: "string", JSONPath: ".status.message"},
	}, k.Columns...)
	return k
}

// releasePolicyKind declares ReleasePolicy, whose plural is irregular.
func releasePolicyKind() Kind {
	k := kind(KindReleasePolicy, "Steps and guards of releases, for the Deployments that name it in the annotation slipway.dev/release.", reflect.TypeFor[ReleasePolicySpec]())
	k.Plural = ResourceReleasePolicy
	return k
}

// kind declares one of our kinds.
func kind(name, description string, spec reflect.Type) Kind {
	return Kind{
		Group: Group, Version: Version, Name: name, Plural: strings.ToLower(name) + "s", Description: description, Spec: spec,
		Categories: []string{"slipway"},
		Columns:    []declare.Column{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}},
	}
}

// CRDs are the CustomResourceDefinitions of all kinds, as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
