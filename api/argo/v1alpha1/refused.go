package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
)

// Reason is why a field is refused, in one word.
type Reason string

// The reasons of refusals.
const (
	// ReasonUnsupported is for what Argo CD has and we do not.
	ReasonUnsupported Reason = "Unsupported"
	// ReasonUnknown is for undeclared names: most are misspelt.
	ReasonUnknown Reason = "Unknown"
	// ReasonInvalid is for values that do not fit.
	ReasonInvalid Reason = "Invalid"
)

// Refused is a part of an object that is not supported or invalid. It belongs
// in the status of the object, and the object is not acted upon.
type Refused struct {
	// Field is its place, such as spec.source.plugin or
	// spec.syncPolicy.syncOptions[1].
	Field  string
	Reason Reason
	// Message describes the problem and its fix.
	Message string
}

// String is place and message on one line.
func (r Refused) String() string { return r.Field + ": " + r.Message }

// Summary joins refusals into one text for a condition.
func Summary(refused []Refused) string {
	lines := make([]string, 0, len(refused))
	for _, r := range refused {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// maxRefused bounds the refusals of one object, and with them the size of its
// status.
const maxRefused = 20

// bounded keeps the first refusals and counts the rest.
func bounded(refused []Refused) []Refused {
	if len(refused) <= maxRefused {
		return refused
	}
	left := len(refused) - maxRefused
	last := refused[maxRefused]
	last.Message = fmt.Sprintf("this and %d more problems are not listed: correct the others first", left)
	return append(refused[:maxRefused:maxRefused], last)
}

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
