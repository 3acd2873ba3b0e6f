package plan

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/glob"
)

// PathEvaluator evaluates expressions of jq.
type PathEvaluator interface {
	// Check reports whether an expression can be evaluated.
	Check(expression string) error
	// Delete gives a document without what an expression selects. It may change
	// the one it was given.
	Delete(expression string, document map[string]any) (map[string]any, error)
}

// Ignore is what differences do not count.
type Ignore struct {
	rules []ignoreRule
	paths PathEvaluator
	known []KnownField
}

// ignoreRule is a compiled rule. Group and kind are patterns; an empty name or
// namespace takes all.
type ignoreRule struct {
	v1alpha1.ResourceIgnoreDifferences
	group, kind glob.Pattern
	pointers    []pointer
}

// NewIgnore reads the rules. The error has all that is wrong with them. Without
// an evaluator, rules with jq expressions are refused.
func NewIgnore(rules []v1alpha1.ResourceIgnoreDifferences, paths PathEvaluator) (*Ignore, error) {
	ignore := &Ignore{paths: paths}
	var faults []error
	for i, rule := range rules {
		compiled := ignoreRule{ResourceIgnoreDifferences: rule}
		note := func(field string, err error) {
			if err != nil {
				faults = append(faults, fmt.Errorf("ignoreDifferences[%d].%s: %w", i, field, err))
			}
		}
		var err error
		compiled.group, err = glob.Compile(rule.Group)
		note("group", err)
		compiled.kind, err = glob.Compile(rule.Kind)
		note("kind", err)
		for j, text := range rule.JSONPointers {
			parsed, err := parsePointer(text)
			note(fmt.Sprintf("jsonPointers[%d]", j), err)
			compiled.pointers = append(compiled.pointers, parsed)
		}
		for j, text := range rule.JQPathExpressions {
			note(fmt.Sprintf("jqPathExpressions[%d]", j), checkPath(paths, text))
		}
		ignore.rules = append(ignore.rules, compiled)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return ignore, nil
}

func checkPath(paths PathEvaluator, text string) error {
	if paths == nil {
		return errors.New("jq expressions are not supported here")
	}
	return paths.Check(text)
}

// isFor reports whether a rule is for an object.
func (r *ignoreRule) isFor(object *unstructured.Unstructured) bool {
	kind := object.GroupVersionKind()
	return r.group.Match(kind.Group) && r.kind.Match(kind.Kind) &&
		(r.Name == "" || r.Name == object.GetName()) &&
		(r.Namespace == "" || r.Namespace == object.GetNamespace())
}

// Strip takes from both versions of an object what does not count. It changes
// them. Managers are those of the live one.
//
// An expression that fails on an object takes nothing from it, as in Argo CD: jq
// fails on what is not there, and for the rest a difference is shown rather than
// hidden.
func (i *Ignore) Strip(live, other *unstructured.Unstructured) {
	if i == nil {
		return
	}
	var matching []*ignoreRule
	var managers []string
	for n := range i.rules {
		if rule := &i.rules[n]; rule.isFor(live) {
			matching = append(matching, rule)
			managers = append(managers, rule.ManagedFieldsManagers...)
		}
	}
	// The managers of the live object are read before a rule can remove them.
	owned := ownedBy(live, managers)
	for _, object := range []*unstructured.Unstructured{live, other} {
		owned.remove(object.Object)
		for _, rule := range matching {
			i.apply(rule, object)
		}
	}
}

func (i *Ignore) apply(rule *ignoreRule, object *unstructured.Unstructured) {
	for _, pointer := range rule.pointers {
		pointer.remove(object.Object)
	}
	for _, expression := range rule.JQPathExpressions {
		if rest, err := i.paths.Delete(expression, object.DeepCopy().Object); err == nil {
			object.Object = rest
		}
	}
}

// ownedBy is the union of what managers own of an object.
func ownedBy(object *unstructured.Unstructured, managers []string) fieldTree {
	union := fieldTree{}
	for _, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil || !slices.Contains(managers, entry.Manager) {
			continue
		}
		if tree, ok := parseFields(entry.FieldsV1.GetRawBytes()); ok {
			union.merge(tree)
		}
	}
	return union
}
