package v1alpha1

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/declare"
)

// Kind describes one of the kinds, for generators of definitions and
// documentation.
type Kind struct {
	Name        string
	Plural      string
	ShortNames  []string
	Description string

	spec, status, operation reflect.Type
	columns                 []column
	// statusSubresource enables the status subresource. Argo CD's clients write
	// the status of an Application together with the rest, so that there it is
	// disabled.
	statusSubresource bool
}

// column is a column of kubectl get. Priority 10 is shown with -o wide.
type column struct {
	name, path string
	priority   int
}

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{
		{
			Name: KindApplication, Plural: "applications", ShortNames: []string{"app", "apps"},
			Description: "What is to be live in a cluster, and where it is in Git.",
			spec:        reflect.TypeFor[ApplicationSpec](), status: reflect.TypeFor[ApplicationStatus](), operation: reflect.TypeFor[Operation](),
			columns: []column{
				{"Sync Status", ".status.sync.status", 0},
				{"Health Status", ".status.health.status", 0},
				{"Revision", ".status.sync.revision", 10},
				{"Project", ".spec.project", 10},
			},
		},
		{
			Name: KindAppProject, Plural: "appprojects", ShortNames: []string{"appproj", "appprojs"},
			Description: "What the Applications of a tenant may do.",
			spec:        reflect.TypeFor[AppProjectSpec](), status: reflect.TypeFor[AppProjectStatus](),
		},
		{
			Name: KindApplicationSet, Plural: "applicationsets", ShortNames: []string{"appset", "appsets"},
			Description: "Applications that are made from a template.",
			spec:        reflect.TypeFor[ApplicationSetSpec](), status: reflect.TypeFor[ApplicationSetStatus](), statusSubresource: true,
		},
	}
}

// File is the name of the file of the kind's CustomResourceDefinition.
func (k Kind) File() string { return Group + "_" + k.Plural + ".yaml" }

// CRD returns the CustomResourceDefinition of the kind as YAML.
func (k Kind) CRD() ([]byte, error) {
	version := map[string]any{
		"name": Version, "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": k.schema()},
	}
	if k.statusSubresource {
		version["subresources"] = map[string]any{"status": map[string]any{}}
	}
	var columns []any
	for _, column := range k.columns {
		entry := map[string]any{"name": column.name, "type": "string", "jsonPath": column.path}
		if column.priority != 0 {
			entry["priority"] = column.priority
		}
		columns = append(columns, entry)
	}
	if len(columns) > 0 {
		version["additionalPrinterColumns"] = columns
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": k.Plural + "." + Group},
		"spec": map[string]any{
			"group": Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"kind": k.Name, "listKind": k.Name + "List", "plural": k.Plural, "singular": strings.ToLower(k.Name),
				"shortNames": k.ShortNames,
			},
			"versions": []any{version},
		},
	})
}

// types are the schemas of types of Kubernetes.
var types = map[reflect.Type]map[string]any{
	reflect.TypeFor[metav1.Time](): {"type": "string", "format": "date-time"},
	reflect.TypeFor[intstr.IntOrString](): {
		"x-kubernetes-int-or-string": true,
		"anyOf":                      []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
	},
}

// schema returns the OpenAPI schema. Unknown fields are preserved in spec and
// operation, where they may be limits, and pruned from the status.
func (k Kind) schema() map[string]any {
	keep := declare.SchemaWriter{Foreign: true, KeepUnknown: true, Types: types}
	prune := declare.SchemaWriter{Foreign: true, Types: types}
	properties := map[string]any{
		"apiVersion": map[string]any{"type": "string"},
		"kind":       map[string]any{"type": "string"},
		"metadata":   map[string]any{"type": "object"},
		"spec":       keep.Schema(&declare.Field{Type: k.spec, Description: "What the object asks for."}),
		"status":     prune.Schema(&declare.Field{Type: k.status, Description: "What is known about it."}),
	}
	if k.operation != nil {
		properties["operation"] = keep.Schema(&declare.Field{Type: k.operation, Description: "A request for a sync. It is removed when the sync starts."})
	}
	return map[string]any{
		"type": "object", "description": k.Description, "required": []any{"metadata", "spec"}, "properties": properties,
	}
}

// CRDs returns the CustomResourceDefinitions of all kinds as one YAML text.
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
