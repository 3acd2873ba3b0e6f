package analysis

import (
	"encoding/json"
	"fmt"
	"strings"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/secret"
)

// secretPlaceholder is the value of arguments from Secrets where the values are not
// needed: to check a run, and for what its status shows.
const secretPlaceholder = "temp-for-secret"

// values are arguments by name.
type values map[string]string

// plainValues returns the values of arguments without reading Secrets.
func plainValues(arguments []v1alpha1.Argument) (values, error) {
	known := values{}
	for _, argument := range arguments {
		switch {
		case fromSecret(argument) != nil:
			known[argument.Name] = secretPlaceholder
		case argument.Value == nil:
			return nil, fmt.Errorf("argument \"%s\" was not supplied", argument.Name)
		default:
			known[argument.Name] = *argument.Value
		}
	}
	return known, nil
}

// fromSecret returns the Secret that an argument comes from; nil for none.
func fromSecret(argument v1alpha1.Argument) *v1alpha1.SecretKeyRef {
	if argument.ValueFrom == nil {
		return nil
	}
	return argument.ValueFrom.SecretKeyRef
}

// substitute returns a metric with {{args.NAME}} replaced in all its fields. The metric
// is encoded for that, so that numbers and nested objects have them too.
func (v values) substitute(metric *v1alpha1.Metric) (*v1alpha1.Metric, error) {
	encoded, err := json.Marshal(metric)
	if err != nil {
		return nil, err
	}
	text, err := v.expand(string(encoded))
	if err != nil {
		return nil, err
	}
	replaced := new(v1alpha1.Metric)
	return replaced, json.Unmarshal([]byte(text), replaced)
}

// expand replaces the arguments in a JSON text. Values are escaped: none can end the
// text that it is in.
func (v values) expand(text string) (string, error) {
	var expanded strings.Builder
	var unresolved error
	for {
		before, rest, found := strings.Cut(text, "{{")
		expanded.WriteString(before)
		if !found {
			return expanded.String(), unresolved
		}
		tag, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return "", fmt.Errorf("cannot find the end of {{%.40s", rest)
		}
		name, isArgument := strings.CutPrefix(strings.TrimSpace(tag), "args.")
		value, known := v[name]
		if !isArgument || !known {
			unresolved = fmt.Errorf("failed to resolve {{%s}}", tag)
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		expanded.Write(quoted[1 : len(quoted)-1])
		text = after
	}
}

// substituteAll replaces the arguments of several metrics.
func (v values) substituteAll(metrics []v1alpha1.Metric) ([]v1alpha1.Metric, error) {
	replaced := make([]v1alpha1.Metric, len(metrics))
	for i := range metrics {
		one, err := v.substitute(&metrics[i])
		if err != nil {
			return nil, err
		}
		replaced[i] = *one
	}
	return replaced, nil
}

// redactor removes the values of Secrets from texts that a status shows.
type redactor []secret.Text

// redact replaces each value, also where it is quoted within a text.
func (r redactor) redact(text string) string {
	for _, one := range r {
		if value := one.Reveal(); value != "" {
			text = strings.ReplaceAll(text, value, redacted)
		}
	}
	return text
}

// redacted is what Argo Rollouts shows in place of a value.
const redacted = "*****"
