package plan

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Scope is whether objects of a kind have a namespace.
type Scope int

// The scopes. A kind that the cluster does not have is UnknownScope.
const (
	UnknownScope Scope = iota
	NamespaceScope
	ClusterScope
)

// Source is what was rendered, and for whom.
type Source struct {
	App     tracking.App
	Tracker tracking.Tracker
	// Namespace is the destination: where objects go that name none.
	Namespace string
	// Revision and Began name the operation. Hooks with generateName are named
	// after them.
	Revision string
	Began    time.Time
	// Scope returns the scope of a kind in the cluster.
	Scope func(schema.GroupKind) Scope
	// Excludes reports whether settings leave a kind out; nil leaves none out.
	Excludes func(schema.GroupKind) bool
	// Objects are of the types that JSON is decoded to. They are not changed.
	Objects []*unstructured.Unstructured
}

// Desired is one object that should be in the cluster.
type Desired struct {
	Key tracking.Key
	// Object has its namespace, and the marks of its Application.
	Object *unstructured.Unstructured
	// Hook is nil for a resource.
	Hook *Hook
	Wave int
	// Skip is why the object is not applied. The live object under its key is
	// left alone.
	Skip string
	// unknown: the cluster does not have the kind.
	unknown bool
}

// Set is what was rendered, ready to be compared and planned. Each key is in it
// once.
type Set struct {
	Objects  []*Desired
	Refusals []refusal.Refusal
	Warnings []finding.Finding
	source   Source
	// definitions are the kinds that CustomResourceDefinitions of the set define.
	definitions map[schema.GroupKind]*Desired
}

// Resources are the objects whose state is that of the Application: neither
// hooks nor skipped.
func (s *Set) Resources() []*Desired {
	var resources []*Desired
	for _, desired := range s.Objects {
		if desired.Hook == nil && desired.Skip == "" {
			resources = append(resources, desired)
		}
	}
	return resources
}

// Prepare makes a Set of what was rendered. What is wrong is in its refusals;
// they block the plan that is built of it.
func Prepare(source Source) *Set {
	set := &Set{source: source, definitions: map[schema.GroupKind]*Desired{}}
	var flat []*unstructured.Unstructured
	for _, object := range source.Objects {
		flat = set.flatten(flat, object, 0)
	}
	scopes := definedScopes(flat)
	var all []*Desired
	for _, object := range flat {
		all = append(all, set.prepare(object, scopes)...)
	}
	set.deduplicate(all)
	for _, desired := range set.Objects {
		if kind, ok := definedKind(desired.Object); ok && desired.Hook == nil && desired.Skip == "" {
			set.definitions[kind] = desired
		}
	}
	return set
}

// maxNesting is how deep lists may be in lists.
const maxNesting = 4

// flatten adds an object, or all that are in a list.
func (s *Set) flatten(into []*unstructured.Unstructured, object *unstructured.Unstructured, depth int) []*unstructured.Unstructured {
	if object == nil || len(object.Object) == 0 {
		return into
	}
	items, isList := listItems(object)
	if !isList {
		return append(into, object)
	}
	if depth >= maxNesting {
		s.refuse(tracking.KeyOf(object), "items", "lists are in lists, more than %d deep", maxNesting)
		return into
	}
	for i, item := range items {
		content, ok := item.(map[string]any)
		if !ok {
			s.refuse(tracking.KeyOf(object), fmt.Sprintf("items[%d]", i), "it is not an object")
			continue
		}
		element := &unstructured.Unstructured{Object: content}
		// The elements of a ConfigMapList may leave out what they are.
		if element.GetKind() == "" && object.GetKind() != "List" {
			element = element.DeepCopy()
			element.SetKind(strings.TrimSuffix(object.GetKind(), "List"))
			element.SetAPIVersion(object.GetAPIVersion())
		}
		into = s.flatten(into, element, depth+1)
	}
	return into
}

// listItems returns the elements of a list, and false for an object that is not
// one. Items that are null, and a v1 List without items, are an empty list: a
// template that ranges over nothing renders them.
func listItems(object *unstructured.Unstructured) ([]any, bool) {
	if !strings.HasSuffix(object.GetKind(), "List") {
		return nil, false
	}
	value, has := object.Object["items"]
	if value == nil {
		return nil, has || object.GetKind() == "List" && object.GetAPIVersion() == "v1"
	}
	items, isList := value.([]any)
	return items, isList
}

// prepare makes what is desired of one rendered object: nothing if it is
// refused, and several for a hook that has a name of its own in each phase.
func (s *Set) prepare(rendered *unstructured.Unstructured, scopes map[schema.GroupKind]Scope) []*Desired {
	key := tracking.KeyOf(rendered)
	if key.Kind == "" {
		s.refuse(key, "", "it has no kind, or its apiVersion %s cannot be read", quoted(rendered.GetAPIVersion()))
		return nil
	}
	if rendered.GetAPIVersion() == "" {
		s.refuse(key, "apiVersion", "it has no apiVersion")
		return nil
	}
	rendered, refused := withMetadata(rendered)
	var role role
	if refused == nil {
		role, refused = roleOf(rendered)
	}
	if refused == nil {
		var wave int
		if wave, refused = waveOf(rendered); refused == nil {
			return s.place(rendered, role, wave, scopes)
		}
	}
	s.Refusals = append(s.Refusals, refused.Of(refusal.Object(key)))
	return nil
}

// place gives an object its namespace and name. It changes the object.
func (s *Set) place(object *unstructured.Unstructured, role role, wave int, scopes map[schema.GroupKind]Scope) []*Desired {
	scope := s.source.Scope(tracking.KeyOf(object).GroupKind())
	desired := &Desired{Object: object, Hook: role.hook, Skip: role.skip, Wave: wave, unknown: scope == UnknownScope}
	if kind := tracking.KeyOf(object).GroupKind(); s.source.Excludes != nil && s.source.Excludes(kind) {
		desired.Skip = "argocd-cm excludes the kind"
		s.Warnings = append(s.Warnings, warning(v1alpha1.ConditionExcludedResourceWarning, tracking.KeyOf(object),
			"resource.exclusions or resource.inclusions of argocd-cm leave the kind out, so that it is neither applied nor compared"))
	}
	if scope == UnknownScope {
		scope = scopes[tracking.KeyOf(object).GroupKind()]
	}
	switch {
	case scope == ClusterScope:
		unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
	case object.GetNamespace() == "":
		object.SetNamespace(s.source.Namespace)
	}
	if object.GetName() != "" {
		return []*Desired{s.finish(desired)}
	}
	switch {
	case object.GetGenerateName() == "":
		s.refuse(tracking.KeyOf(object), "metadata.name", "it has no name")
		return nil
	case role.hook == nil:
		s.refuse(tracking.KeyOf(object), "metadata.generateName", "only a hook can have it instead of a name")
		return nil
	}
	var each []*Desired
	for _, phase := range role.hook.Phases {
		one := *desired
		one.Object = object.DeepCopy()
		one.Hook = &Hook{Phases: []PhaseName{phase}, Policies: role.hook.Policies}
		one.Object.SetName(hookName(object.GetGenerateName(), s.source.Revision, phase, s.source.Began))
		each = append(each, s.finish(&one))
	}
	return each
}

// finish marks the object as the Application's, and warns of sync options
// without a meaning.
func (s *Set) finish(desired *Desired) *Desired {
	s.source.Tracker.Stamp(desired.Object, s.source.App)
	desired.Key = tracking.KeyOf(desired.Object)
	_, unknown := ObjectOptions{}.of(desired.Object)
	for _, message := range unknown {
		s.Warnings = append(s.Warnings, warning(UnknownOptionWarning, desired.Key, annotationField(annotationOptions)+": "+message))
	}
	return desired
}

// deduplicate keeps the last object of each key, as Argo CD does. Hooks with
// generateName are never the same: they get a number.
func (s *Set) deduplicate(all []*Desired) {
	count := map[tracking.Key]int{}
	for _, desired := range all {
		if desired.Object.GetGenerateName() != "" && desired.Hook != nil && count[desired.Key] > 0 {
			s.renumber(desired, count)
		}
		count[desired.Key]++
	}
	seen := map[tracking.Key]int{}
	for _, desired := range all {
		seen[desired.Key]++
		if seen[desired.Key] < count[desired.Key] {
			continue
		}
		if times := count[desired.Key]; times > 1 {
			s.Warnings = append(s.Warnings, warning(RepeatedResourceWarning, desired.Key,
				fmt.Sprintf("Resource %s appeared %d times among application resources.", desired.Key, times)))
		}
		s.Objects = append(s.Objects, desired)
	}
}

// renumber gives a hook the first name with a number that is free.
func (s *Set) renumber(desired *Desired, taken map[tracking.Key]int) {
	base := desired.Object.GetName()
	for number := 2; taken[desired.Key] > 0; number++ {
		suffix := fmt.Sprintf("-%d", number)
		desired.Object.SetName(base[:min(len(base), maxName-len(suffix))] + suffix)
		desired.Key = tracking.KeyOf(desired.Object)
	}
	s.source.Tracker.Stamp(desired.Object, s.source.App)
}

func (s *Set) refuse(object tracking.Key, field, format string, args ...any) {
	s.Refusals = append(s.Refusals, refusal.New(field, refusal.Invalid, format, args...).Of(refusal.Object(object)))
}

// definedScopes are the scopes of kinds that are defined by what was rendered.
func definedScopes(objects []*unstructured.Unstructured) map[schema.GroupKind]Scope {
	scopes := map[schema.GroupKind]Scope{}
	for _, object := range objects {
		kind, ok := definedKind(object)
		if !ok {
			continue
		}
		scopes[kind] = NamespaceScope
		if scope, _, _ := unstructured.NestedString(object.Object, "spec", "scope"); scope == "Cluster" {
			scopes[kind] = ClusterScope
		}
	}
	return scopes
}

// isDefinition reports whether a key is that of a CustomResourceDefinition.
func isDefinition(key tracking.Key) bool {
	return key.Group == "apiextensions.k8s.io" && key.Kind == "CustomResourceDefinition"
}

// definedKind is the kind that a CustomResourceDefinition defines.
func definedKind(object *unstructured.Unstructured) (schema.GroupKind, bool) {
	if !isDefinition(tracking.KeyOf(object)) {
		return schema.GroupKind{}, false
	}
	group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}, group != "" && kind != ""
}
