package v1alpha1

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// maxListed bounds the refusals of one object that are returned, and with them
// the size of its status.
const maxListed = 20

// types are the types of Kubernetes in the declarations. Templates of Pods are not
// described by the schema: the API server checks them in the ReplicaSet.
var types = map[reflect.Type]declare.ForeignType{
	reflect.TypeFor[metav1.Time](): {Schema: map[string]any{"type": "string", "format": "date-time"}, Decode: decodeTime},
	reflect.TypeFor[intstr.IntOrString](): {
		Schema: map[string]any{
			"x-kubernetes-int-or-string": true,
			"anyOf":                      []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
		},
		Decode: decodeIntOrString,
	},
	reflect.TypeFor[metav1.LabelSelector]():   {Schema: freeSchema(), Decode: decodeObject[metav1.LabelSelector]},
	reflect.TypeFor[corev1.PodTemplateSpec](): {Schema: freeSchema(), Decode: decodeObject[corev1.PodTemplateSpec]},
}

// freeSchema is the schema of an object whose fields are not described.
func freeSchema() map[string]any {
	return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
}

// decodeTime returns a timestamp with the precision that is written.
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

// decodeObject returns an object of Kubernetes. The converter panics on values
// that JSON does not have, which FreeForm finds.
func decodeObject[T any](value any) (any, error) {
	copied, err := declare.FreeForm(value)
	if err != nil {
		return nil, err
	}
	content, ok := copied.(map[string]any)
	if !ok {
		return nil, errors.New("write fields and their values")
	}
	var into T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &into); err != nil {
		return nil, err
	}
	return into, nil
}

// Decode reads a Rollout from decoded JSON, such as the content of an unstructured
// object. It returns what could be read, and a refusal of everything in its spec
// that we will not do. An error means that the object is no Rollout.
func Decode(object map[string]any) (*Rollout, []refusal.Refusal, error) {
	rollout := &Rollout{}
	if err := header(object, KindRollout, &rollout.TypeMeta, &rollout.ObjectMeta); err != nil {
		return nil, nil, err
	}
	refused := parts(object, &rollout.Spec, &rollout.Status)
	return rollout, refused, nil
}

// parts decodes spec and status of an object, and returns what is refused.
func parts(object map[string]any, spec, status any) []refusal.Refusal {
	decoder := declare.Decoder{Foreign: true, Types: types}
	if object["spec"] == nil {
		decoder.Invalid("spec", "it is missing")
	} else {
		decoder.Decode(object["spec"], spec, "spec")
	}
	decoder.Unknown(object, []string{"apiVersion", "kind", "metadata", "spec", "status"}, "")
	if object["status"] != nil && status != nil {
		(&declare.Decoder{Foreign: true, Lenient: true, Types: types}).Decode(object["status"], status, "status")
	}
	return refusal.Bounded(decoder.Refused, maxListed)
}

// header decodes the metadata and checks the kind.
func header(object map[string]any, kind string, into *metav1.TypeMeta, metadata *metav1.ObjectMeta) error {
	version, _ := object["apiVersion"].(string)
	given, _ := object["kind"].(string)
	if version != APIVersion || given != kind {
		return fmt.Errorf("it is %s of %s, and not %s of %s", declare.Quoted(given), declare.Quoted(version), kind, APIVersion)
	}
	*into = metav1.TypeMeta{APIVersion: version, Kind: given}
	decoded, err := decodeObject[metav1.ObjectMeta](object["metadata"])
	if err != nil {
		return fmt.Errorf("the metadata cannot be read: %w", err)
	}
	*metadata = decoded.(metav1.ObjectMeta)
	return nil
}
