package rollout

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// arguments are the values of arguments of an analysis. Before the first ReplicaSet, a
// field need not be there yet.
func (p *pass) arguments(given []v1alpha1.AnalysisRunArgument) ([]v1alpha1.Argument, error) {
	var result []v1alpha1.Argument
	for _, one := range given {
		value := one.Value
		if from := one.ValueFrom; from != nil {
			switch {
			case from.PodTemplateHashValue == v1alpha1.HashLatest:
				value = hashOf(p.newSet)
			case from.PodTemplateHashValue == v1alpha1.HashStable:
				value = hashOf(p.stableSet)
			case from.FieldRef != nil:
				var err error
				if value, err = fieldOf(p.rollout, from.FieldRef.FieldPath); err != nil && p.newSet != nil {
					return nil, fmt.Errorf("argument %s: %w", one.Name, err)
				}
			}
		}
		result = append(result, v1alpha1.Argument{Name: one.Name, Value: &value})
	}
	return result, nil
}

// fieldOf is the value of a field of a Rollout: a path with dots, an index in brackets,
// or the name of a label or annotation in brackets and quotes. A label that does not
// exist is empty, as in the downward API.
func fieldOf(rollout *v1alpha1.Rollout, path string) (string, error) {
	for prefix, values := range map[string]map[string]string{"metadata.labels['": rollout.Labels, "metadata.annotations['": rollout.Annotations} {
		if name, ok := strings.CutPrefix(path, prefix); ok && strings.HasSuffix(name, "']") {
			return values[strings.TrimSuffix(name, "']")], nil
		}
	}
	text, err := json.Marshal(rollout)
	if err != nil {
		return "", err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return "", err
	}
	for _, part := range strings.Split(path, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		fields, _ := value.(map[string]any)
		if value = fields[name]; indexed {
			list, _ := value.([]any)
			at, err := strconv.Atoi(index)
			if err != nil || at < 0 || at >= len(list) {
				return "", fmt.Errorf("the Rollout has no field %s", path)
			}
			value = list[at]
		}
		if value == nil {
			return "", fmt.Errorf("the Rollout has no field %s", path)
		}
	}
	if found, ok := value.(string); ok {
		return found, nil
	}
	text, err = json.Marshal(value)
	return string(text), err
}
