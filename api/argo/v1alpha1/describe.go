package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
)

// shortened cuts a user's text for a message.
func shortened(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// quoted quotes a user's text, which makes control characters visible.
func quoted(text string) string { return strconv.Quote(shortened(text)) }

// nameOf describes a value for users.
func nameOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + quoted(v)
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

// join returns the path of a field.
func join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}
