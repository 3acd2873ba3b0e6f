// Package v1beta1 declares the kinds of Codefresh's promotions in the group
// codefresh.io: Product, PromotionFlow, PromotionPolicy and PromotionTemplate. Names
// and meaning are those of Codefresh's documentation, so that the same YAML works; the
// code is our own.
//
// The kinds are declared in struct tags, which package declare explains.
//
// It promises that no field of a spec is lost silently: the decoders return a refusal
// of every field that is unknown, not supported or of the wrong type. Refused are hooks,
// preAction and postAction, which are workflows of Argo Workflows, and selectors by tag.
//
// The fields are those of Codefresh's definitions (charts/gitops-runtime of
// codefresh-io/gitops-runtime-helm) and of its documentation. Where the two differ, the
// definition counts: the documentation has an older form with spec.properties, and names
// of fields such as targetEnvironment.name that no definition has.
//
// Products of v1beta2 are served by Codefresh's definition in both versions; we read
// v1beta1, which every cluster has.
//
// It contains no behaviour: internal/gitops/promotion implements the fields.
//
// See decision 0075 in docs/decisions.
package v1beta1

import "k8s.io/apimachinery/pkg/runtime/schema"

// The group and version of the kinds, as written in apiVersion.
const (
	Group      = "codefresh.io"
	Version    = "v1beta1"
	APIVersion = Group + "/" + Version
)

// The names of the kinds.
const (
	KindProduct           = "Product"
	KindPromotionFlow     = "PromotionFlow"
	KindPromotionPolicy   = "PromotionPolicy"
	KindPromotionTemplate = "PromotionTemplate"
)

// LabelProduct is the label, or annotation, of an Application with the name of its
// Product.
const LabelProduct = Group + "/product"

// AnnotationStart is the annotation of a Product that says how its promotions begin. It
// is ours: Codefresh's kinds have no field for it.
const AnnotationStart = "slipway.dev/start"

// The values of AnnotationStart. Without one, a person starts promotions.
const (
	StartAutomatic = "automatic"
	StartManual    = "manual"
)

// ProductResource is the resource of Products.
func ProductResource() schema.GroupVersionResource { return resource("products") }

// FlowResource is the resource of PromotionFlows.
func FlowResource() schema.GroupVersionResource { return resource("promotionflows") }

// PolicyResource is the resource of PromotionPolicies.
func PolicyResource() schema.GroupVersionResource { return resource("promotionpolicies") }

// TemplateResource is the resource of PromotionTemplates.
func TemplateResource() schema.GroupVersionResource { return resource("promotiontemplates") }

// resource is a resource of the group.
func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
}
