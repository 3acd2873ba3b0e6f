package declare

import (
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// nameOf describes a value for a message by its type in YAML.
func nameOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + Quoted(v)
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

// describe returns the first sentence of a description, as the end of a message.
// Acronyms at its start, such as URL or RE2, keep their case.
func describe(field *Field) string {
	text, _, _ := strings.Cut(strings.TrimSuffix(field.Description, "."), ". ")
	if text == "" {
		return "give a value"
	}
	if len(text) > 1 && 'a' <= text[1] && text[1] <= 'z' {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// Join appends a field name to a path.
func Join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}

// Shorten truncates user input for a message and keeps it valid UTF-8.
func Shorten(name string) string { return refusal.Shorten(name, 64) }

// Quoted returns text in quotes, truncated and with control characters escaped.
func Quoted(text string) string { return strconv.Quote(Shorten(text)) }
