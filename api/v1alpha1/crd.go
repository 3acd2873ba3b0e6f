package v1alpha1

import (
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/declare"
)

// Kind describes one of our kinds, for generators that need all of them, such
// as the CRDs and the reference page.
type Kind struct {
	Name        string
	Plural      string
	Description string
	// Spec is the type of the spec of its objects.
	Spec reflect.Type
}

// Kinds lists our kinds.
func Kinds() []Kind {
	return []Kind{
		{"Middleware", "middlewares", "A list of filters under a name, for the Ingresses that name it.", reflect.TypeFor[MiddlewareSpec]()},
		{"TLSOption", "tlsoptions", "How clients connect to the hosts of the Ingresses that name it.", reflect.TypeFor[TLSOptionSpec]()},
		{"BackendTransport", "backendtransports", "How requests travel to the Services that name it.", reflect.TypeFor[BackendTransportSpec]()},
	}
}

// File is the name of the file with the CustomResourceDefinition of the kind.
func (k Kind) File() string { return Group + "_" + k.Plural + ".yaml" }

// CRD is the CustomResourceDefinition of the kind, as YAML. There is one
// version, which is served and stored; the storage version may change only with
// a conversion.
func (k Kind) CRD() ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": k.Plural + "." + Group},
		"spec": map[string]any{
			"group": Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"kind": k.Name, "listKind": k.Name + "List", "plural": k.Plural, "singular": strings.ToLower(k.Name),
				"categories": []any{"slipway"},
			},
			"versions": []any{map[string]any{
				"name": Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": k.schema()},
				"additionalPrinterColumns": []any{
					map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
				},
			}},
		},
	})
}

// schema returns the schema of an object. A spec is required, because an object
// without one has no meaning. There is no status: problems are reported as
// Events.
func (k Kind) schema() map[string]any {
	spec := declare.Schema(k.Spec)
	spec["description"] = "What the object asks for."
	return map[string]any{
		"type":        "object",
		"description": k.Description,
		"required":    []any{"spec"},
		"properties": map[string]any{
			"apiVersion": map[string]any{"type": "string"},
			"kind":       map[string]any{"type": "string"},
			"metadata":   map[string]any{"type": "object"},
			"spec":       spec,
		},
	}
}

// CRDs are the CustomResourceDefinitions of all kinds, as one YAML text.
func CRDs() ([]byte, error) {
	var all []byte
	for _, kind := range Kinds() {
		text, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		all = append(append(all, "---\n"...), text...)
	}
	return all, nil
}
