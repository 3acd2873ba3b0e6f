package declare

import (
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// Kind declares a kind of objects, for its CustomResourceDefinition and for
// generators that need all kinds, such as that of the reference page.
type Kind struct {
	Group, Version, Name, Plural, Description string
	ShortNames, Categories                    []string
	// Columns are those of kubectl get, beside the name.
	Columns []Column
	// Spec, Status and Operation are the types of the parts of an object. Only
	// the spec is in every kind, and it is required: an object without one has no
	// meaning.
	Spec, Status, Operation reflect.Type
	// ClusterScope is set for a kind whose objects are in no namespace.
	ClusterScope bool
	// StatusSubresource makes clients write the status on its own.
	StatusSubresource bool
	// Scale makes the kind scalable, for autoscalers; nil if it is not.
	Scale *Scale
	// Schema writes the schemas of the parts. Unknown fields are never kept in a
	// status, which has no limits that could be lost.
	Schema SchemaWriter
}

// Scale has the paths of the fields that the subresource scale is made of.
type Scale struct {
	SpecReplicas   string `json:"specReplicasPath"`
	StatusReplicas string `json:"statusReplicasPath"`
	LabelSelector  string `json:"labelSelectorPath"`
}

// Column is a column of kubectl get. Priority 10 is shown with -o wide.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Priority int    `json:"priority,omitempty"`
}

// File is the name of the file with the CustomResourceDefinition of the kind.
func (k Kind) File() string { return k.Group + "_" + k.Plural + ".yaml" }

// CRD returns the CustomResourceDefinition of the kind as YAML. There is one
// version, which is served and stored; the storage version may change only with
// a conversion.
func (k Kind) CRD() ([]byte, error) {
	names := map[string]any{"kind": k.Name, "listKind": k.Name + "List", "plural": k.Plural, "singular": strings.ToLower(k.Name)}
	if len(k.ShortNames) > 0 {
		names["shortNames"] = k.ShortNames
	}
	if len(k.Categories) > 0 {
		names["categories"] = k.Categories
	}
	version := map[string]any{
		"name": k.Version, "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": k.object()},
	}
	subresources := map[string]any{}
	if k.StatusSubresource {
		subresources["status"] = map[string]any{}
	}
	if k.Scale != nil {
		subresources["scale"] = k.Scale
	}
	if len(subresources) > 0 {
		version["subresources"] = subresources
	}
	if len(k.Columns) > 0 {
		version["additionalPrinterColumns"] = k.Columns
	}
	scope := "Namespaced"
	if k.ClusterScope {
		scope = "Cluster"
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": k.Plural + "." + k.Group},
		"spec":       map[string]any{"group": k.Group, "scope": scope, "names": names, "versions": []any{version}},
	})
}

// object returns the schema of a whole object.
func (k Kind) object() map[string]any {
	properties := map[string]any{
		"apiVersion": map[string]any{"type": "string"},
		"kind":       map[string]any{"type": "string"},
		"metadata":   map[string]any{"type": "object"},
		"spec":       k.Schema.Schema(&Field{Type: k.Spec, Description: "Desired state of the object."}),
	}
	required := []any{"spec"}
	if k.Schema.Foreign {
		required = []any{"metadata", "spec"}
	}
	if k.Status != nil {
		pruning := k.Schema
		pruning.KeepUnknown = false
		properties["status"] = pruning.Schema(&Field{Type: k.Status, Description: "Observed state of the object."})
	}
	if k.Operation != nil {
		properties["operation"] = k.Schema.Schema(&Field{Type: k.Operation, Description: "A request for a sync. It is removed when the sync starts."})
	}
	return map[string]any{"type": "object", "description": k.Description, "required": required, "properties": properties}
}

// CRDs returns the CustomResourceDefinitions of several kinds as one YAML text.
func CRDs(kinds []Kind) ([]byte, error) {
	var all []byte
	for _, kind := range kinds {
		text, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		all = append(append(all, "---\n"...), text...)
	}
	return all, nil
}
