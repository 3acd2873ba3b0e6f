package v1alpha1

import (
	"errors"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/declare"
)

// types are the types of Kubernetes in the declarations.
var types = map[reflect.Type]declare.ForeignType{
	reflect.TypeFor[metav1.Time](): {Schema: map[string]any{"type": "string", "format": "date-time"}, Decode: decodeTime},
	reflect.TypeFor[intstr.IntOrString](): {
		Schema: map[string]any{
			"x-kubernetes-int-or-string": true,
			"anyOf":                      []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
		},
		Decode: decodeIntOrString,
	},
}

// decodeTime returns a timestamp with the precision that is written, so that a
// decoded and encoded object is unchanged.
func decodeTime(value any) (any, error) {
	text, _ := value.(string)
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil || parsed.IsZero() {
		return nil, errors.New("write a time such as 2006-01-02T15:04:05Z")
	}
	return metav1.NewTime(parsed.UTC().Truncate(time.Second)), nil
}

// decodeIntOrString returns a number or a text.
func decodeIntOrString(value any) (any, error) {
	if text, ok := value.(string); ok {
		return intstr.FromString(text), nil
	}
	number, ok := declare.WholeNumber(value)
	if !ok || number != int64(int32(number)) {
		return nil, errors.New("write a whole number")
	}
	return intstr.FromInt32(int32(number)), nil
}
