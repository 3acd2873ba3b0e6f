package generate

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selected returns the sets whose parameters match. The values of parameters
// need not be valid labels: an address is one too. Nested parameters are
// matched by their flat names, also with goTemplate.
func (r *runner) selected(selector *metav1.LabelSelector, sets []map[string]any) ([]map[string]any, error) {
	if selector == nil {
		return sets, nil
	}
	var kept []map[string]any
	for _, params := range sets {
		flat := map[string]any{}
		flatten(flat, "", params)
		fits, err := fitsSelector(selector, flat)
		if err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
		if fits {
			kept = append(kept, params)
		}
	}
	return kept, nil
}

// fitsSelector evaluates a selector on parameters. NotIn and DoesNotExist match
// a missing parameter, as they do for labels.
func fitsSelector(selector *metav1.LabelSelector, values map[string]any) (bool, error) {
	for name, want := range selector.MatchLabels {
		if value, ok := values[name]; !ok || value != want {
			return false, nil
		}
	}
	for _, expression := range selector.MatchExpressions {
		value, present := values[expression.Key].(string)
		listed := present && slices.Contains(expression.Values, value)
		fits := false
		switch expression.Operator {
		case metav1.LabelSelectorOpIn:
			fits = listed
		case metav1.LabelSelectorOpNotIn:
			fits = !listed
		case metav1.LabelSelectorOpExists:
			fits = present
		case metav1.LabelSelectorOpDoesNotExist:
			fits = !present
		default:
			return false, fmt.Errorf("%.40q is not an operator: write In, NotIn, Exists or DoesNotExist", expression.Operator)
		}
		if !fits {
			return false, nil
		}
	}
	return true, nil
}

// inOuterSelector expands a selector with the parameters of the generator
// before. It returns a new selector: the set is shared with the store and must
// not change.
func (r *runner) inOuterSelector(selector *metav1.LabelSelector, outer map[string]any) (*metav1.LabelSelector, error) {
	if selector == nil || outer == nil {
		return selector, nil
	}
	expanded := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for name, value := range selector.MatchLabels {
		var err error
		if name, err = r.inOuter(name, outer); err != nil {
			return nil, err
		}
		if expanded.MatchLabels[name], err = r.inOuter(value, outer); err != nil {
			return nil, err
		}
	}
	for _, expression := range selector.MatchExpressions {
		key, err := r.inOuter(expression.Key, outer)
		if err != nil {
			return nil, err
		}
		copied := metav1.LabelSelectorRequirement{Key: key, Operator: expression.Operator}
		for _, value := range expression.Values {
			if value, err = r.inOuter(value, outer); err != nil {
				return nil, err
			}
			copied.Values = append(copied.Values, value)
		}
		expanded.MatchExpressions = append(expanded.MatchExpressions, copied)
	}
	return expanded, nil
}
