package generate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// inOuterFields returns a generator with its texts expanded by the parameters of
// the generator before it. Its values and its template are left as they are:
// they are expanded later, with more parameters.
func inOuterFields[T any](r *runner, given *T, outer map[string]any) (*T, error) {
	if outer == nil {
		return given, nil
	}
	encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(given)
	if err != nil {
		return nil, fmt.Errorf("the generator cannot be read: %w", err)
	}
	delete(encoded, "values")
	delete(encoded, "template")
	expanded, err := r.expander.Value(r.ctx, encoded, outer)
	if err != nil {
		return nil, err
	}
	made := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(expanded.(map[string]any), made); err != nil {
		return nil, fmt.Errorf("the generator cannot be read: %w", err)
	}
	return made, nil
}
