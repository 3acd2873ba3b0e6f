package v1alpha1

import (
	"fmt"

	"slipway.dev/slipway/api/declare"
)

// nameOf describes a value for users.
func nameOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + declare.Quoted(v)
	case bool:
		return fmt.Sprintf("the value %t", v)
	case int, int32, int64, uint64, float32, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a group of fields"
	default:
		return "something else"
	}
}
