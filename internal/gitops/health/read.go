package health

import (
	"cmp"
	"math"
	"strconv"

	"slipway.dev/slipway/api/refusal"
)

// group is a part of an object. A field that is missing or of another type
// reads as empty: an object may have any content.
type group map[string]any

// group returns a nested object; nil if there is none.
func (g group) group(name string) group {
	inner, _ := g[name].(map[string]any)
	return inner
}

// list returns a list; nil if there is none.
func (g group) list(name string) []any {
	list, _ := g[name].([]any)
	return list
}

// groups returns the elements of a list that are objects.
func (g group) groups(name string) []group {
	var found []group
	for _, element := range g.list(name) {
		if inner, ok := element.(map[string]any); ok {
			found = append(found, inner)
		}
	}
	return found
}

// text returns a text; empty if there is none.
func (g group) text(name string) string {
	text, _ := g[name].(string)
	return text
}

// flag returns a boolean; false if there is none.
func (g group) flag(name string) bool {
	yes, _ := g[name].(bool)
	return yes
}

// has reports whether a field is set, with a value of any type.
func (g group) has(name string) bool { return g[name] != nil }

// maxExact is the largest number up to which a float64 is exact.
const maxExact = 1 << 53

// number returns a whole number; 0 if there is none.
func (g group) number(name string) int64 {
	switch n := g[name].(type) {
	case int64:
		return n
	case int:
		return int64(n)
	case float64:
		if math.Abs(n) <= maxExact {
			return int64(n)
		}
	}
	return 0
}

// generation is the number of a generation. Controllers write it as a number or as
// decimal text. It is false for everything else.
func (g group) generation(name string) (int64, bool) {
	switch value := g[name].(type) {
	case string:
		parsed, err := strconv.ParseInt(value, 10, 64)
		return parsed, err == nil
	case float64:
		return g.number(name), math.Abs(value) <= maxExact
	case int64, int:
		return g.number(name), true
	}
	return 0, false
}

// condition is a condition of a status.
type condition struct {
	kind, status, reason, message string
	observed                      int64 // 0 when it is not set
}

// conditions returns the conditions, without checking their values.
func (g group) conditions() []condition {
	var found []condition
	for _, c := range g.groups("conditions") {
		observed, _ := c.generation("observedGeneration")
		found = append(found, condition{
			kind: c.text("type"), status: c.text("status"), reason: c.text("reason"), message: c.text("message"),
			observed: observed,
		})
	}
	return found
}

// find returns the condition of a type. A status has few conditions, and types
// are unique in it: the first one counts.
func find(conditions []condition, kind string) (condition, bool) {
	for _, c := range conditions {
		if c.kind == kind {
			return c, true
		}
	}
	return condition{}, false
}

// The text of a condition is its message, or else its reason.
func (c condition) text() string {
	return cmp.Or(c.message, c.reason)
}

// maxMessage bounds the message of one object in a status.
const maxMessage = 512

// shortened cuts a text to maxMessage.
func shortened(text string) string { return refusal.Shorten(text, maxMessage) }
