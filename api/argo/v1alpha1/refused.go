package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
)

// Reason says why a field is refused, in one word.
type Reason string

// Why fields are refused.
const (
	// ReasonUnsupported is for what Argo CD has and we do not.
	ReasonUnsupported Reason = "Unsupported"
	// ReasonUnknown is for names that nobody knows: most are misspelt.
	ReasonUnknown Reason = "Unknown"
	// ReasonInvalid is for values that do not fit.
	ReasonInvalid Reason = "Invalid"
)

// Refused is something in an object that we will not do. It belongs into the
// status of the object, and the object is not acted upon.
type Refused struct {
	// Field is its place, such as spec.source.plugin or
	// spec.syncPolicy.syncOptions[1].
	Field  string
	Reason Reason
	// Message says what is wrong and what to do.
	Message string
}

// String is place and message on one line.
func (r Refused) String() string { return r.Field + ": " + r.Message }

// Summary puts refusals into one text for a condition.
func Summary(refused []Refused) string {
	lines := make([]string, 0, len(refused))
	for _, r := range refused {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "; ")
}

// maxRefused bounds what is said about one object.
const maxRefused = 20

// bounded keeps the first refusals and says how many are left out.
func bounded(refused []Refused) []Refused {
	if len(refused) <= maxRefused {
		return refused
	}
	left := len(refused) - maxRefused
	last := refused[maxRefused]
	last.Message = fmt.Sprintf("this and %d more problems are not listed: correct the others first", left)
	return append(refused[:maxRefused:maxRefused], last)
}

// shortened keeps a text short: it is whatever somebody wrote.
func shortened(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func quoted(text string) string { return strconv.Quote(shortened(text)) }

// nameOf tells people what a value is.
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

func join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}
