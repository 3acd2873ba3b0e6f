package customization

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/plan"
)

// knownField is a field of a kind, and the type that it has.
type knownField struct {
	Field string `json:"field"`
	Type  string `json:"type"`
}

// addKnown adds the fields of a kind, in the place of those that were read
// before.
func (s *Settings) addKnown(name, kind string, fields []knownField) {
	group := schema.GroupKind{Kind: kind}
	if before, after, found := strings.Cut(kind, "/"); found {
		group = schema.GroupKind{Group: before, Kind: after}
	}
	var known []plan.KnownField
	for _, one := range s.KnownFields {
		if one.Kind != group {
			known = append(known, one)
		}
	}
	for _, one := range fields {
		typed, found := knownTypes()[one.Type]
		if !found || one.Field == "" {
			s.problem(name, fmt.Errorf("knownTypeFields of %s: the field %q has the type %q: write a field, and core/Quantity, meta/v1/Duration or core/v1/NAME", kind, one.Field, one.Type))
			continue
		}
		known = append(known, plan.KnownField{Kind: group, Path: strings.Split(one.Field, "."), New: func() any { return reflect.New(typed).Interface() }})
	}
	s.KnownFields = known
}

// knownTypes are the types of Argo CD by their names: two, and all of the API
// group core that Kubernetes has a name for.
var knownTypes = sync.OnceValue(func() map[string]reflect.Type {
	types := map[string]reflect.Type{
		"core/Quantity":    reflect.TypeFor[resource.Quantity](),
		"meta/v1/Duration": reflect.TypeFor[metav1.Duration](),
	}
	scheme := runtime.NewScheme()
	if corev1.AddToScheme(scheme) != nil {
		return types
	}
	for _, root := range scheme.KnownTypes(corev1.SchemeGroupVersion) {
		addCoreTypes(types, root)
	}
	return types
})

// addCoreTypes adds a type of the group core, and those of its fields.
func addCoreTypes(types map[string]reflect.Type, one reflect.Type) {
	isCore := one.PkgPath() == reflect.TypeFor[corev1.Pod]().PkgPath()
	if isCore {
		if _, found := types["core/v1/"+one.Name()]; found {
			return
		}
		types["core/v1/"+one.Name()] = one
	}
	switch one.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addCoreTypes(types, one.Elem())
	case reflect.Struct:
		for i := 0; isCore && i < one.NumField(); i++ {
			addCoreTypes(types, one.Field(i).Type)
		}
	}
}
