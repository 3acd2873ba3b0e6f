package v1beta1

import (
	"reflect"

	"slipway.dev/slipway/api/declare"
)

// Kinds lists the kinds. Names are those of Codefresh's definitions, so that clients do
// not notice whose definition a cluster has. Unknown fields are preserved in a spec,
// where the decoders refuse them.
func Kinds() []declare.Kind {
	return []declare.Kind{
		kind(KindProduct, "products", "prod", "What Applications of several environments are versions of.", reflect.TypeFor[ProductSpec]()),
		kind(KindPromotionFlow, "promotionflows", "pf", "The order of the environments of promotions.", reflect.TypeFor[PromotionFlowSpec]()),
		kind(KindPromotionPolicy, "promotionpolicies", "pp", "How environments are promoted.", reflect.TypeFor[PromotionPolicySpec]()),
		kind(KindPromotionTemplate, "promotiontemplates", "pt", "The files and fields that are promoted.", reflect.TypeFor[PromotionTemplateSpec]()),
	}
}

// kind declares one of the kinds.
func kind(name, plural, short, description string, spec reflect.Type) declare.Kind {
	return declare.Kind{
		Group: Group, Version: Version, Name: name, Plural: plural, ShortNames: []string{short}, Description: description, Spec: spec,
		Columns: []declare.Column{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}},
		Schema:  declare.SchemaWriter{Foreign: true, KeepUnknown: true},
	}
}

// CRDs returns the CustomResourceDefinitions of the kinds as one YAML text.
func CRDs() ([]byte, error) { return declare.CRDs(Kinds()) }
