package apply

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// undeclared is how a server-side apply refuses a field that a kind does not
// have: the path of the field as structured-merge-diff writes it, such as
// .spec.template.spec.containers[name="web"].imagePolicy.
var undeclared = regexp.MustCompile(`(?m)(?:^\s*|: )(\.[^\n]*?): field not declared in schema`)

// undeclaredFields are the paths of the fields that the API server refused
// because the kind does not have them.
func undeclaredFields(err error) []string {
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Err == nil {
		return nil
	}
	var paths []string
	for _, match := range undeclared.FindAllStringSubmatch(fault.Err.Error(), -1) {
		paths = append(paths, match[1])
	}
	return paths
}

// maxLeftOut bounds how often a request is sent again without the fields that
// were refused. The API server names those of one level at a time.
const maxLeftOut = 20

// sendWithout sends a request, and again without the fields that the kind does
// not have for as long as the API server names any. It returns the request that
// was accepted or refused at last.
func sendWithout(first request, send func(request) error) (request, error) {
	sent := first
	for range maxLeftOut {
		err := send(sent)
		less, ok := sent.leaveOut(undeclaredFields(err))
		if !ok {
			return sent, err
		}
		sent = less
	}
	return sent, send(sent)
}

// leaveOut is a request without fields that the kind does not have, or false if
// none of them is in the object.
//
// With Validate=false that is what kubectl does: the fields are dropped. A
// server-side apply refuses them with any fieldValidation, because it has to
// know how to merge each of them, so they are dropped before it is sent again.
func (r request) leaveOut(paths []string) (request, bool) {
	object := runtime.DeepCopyJSON(r.object)
	if !removeFields(object, "", paths) {
		return r, false
	}
	body, err := json.Marshal(object)
	return request{object, body}, err == nil
}

// removeFields removes what paths lead to from a value that is itself at a path.
// It reports whether there was anything.
func removeFields(value any, at string, paths []string) bool {
	removed := false
	switch value := value.(type) {
	case map[string]any:
		for field, inner := range value {
			here := at + "." + field
			if slices.Contains(paths, here) {
				delete(value, field)
				removed = true
			} else if isAbove(here, paths) {
				removed = removeFields(inner, here, paths) || removed
			}
		}
	case []any:
		for i, element := range value {
			for _, step := range elementSteps(at, paths) {
				if leadsTo(step, i, element) {
					removed = removeFields(element, at+step, paths) || removed
				}
			}
		}
	}
	return removed
}

// isAbove reports whether a path leads through a place.
func isAbove(at string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(path, at) })
}

// elementSteps are the steps that paths take at a list: [name="web"] or [0].
func elementSteps(at string, paths []string) []string {
	var steps []string
	for _, path := range paths {
		rest, ok := strings.CutPrefix(path, at)
		if !ok || !strings.HasPrefix(rest, "[") {
			continue
		}
		if end := stepEnd(rest); end > 0 && !slices.Contains(steps, rest[:end]) {
			steps = append(steps, rest[:end])
		}
	}
	return steps
}

// stepEnd is where the step ends that a text begins with. A quoted key may have
// a bracket in it.
func stepEnd(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ']' && !quoted:
			return i + 1
		}
	}
	return 0
}

// leadsTo reports whether a step leads to an element of a list, by its place or
// by its keys. A key that the element leaves out has its default.
func leadsTo(step string, index int, element any) bool {
	inner := step[1 : len(step)-1]
	if place, err := strconv.Atoi(inner); err == nil {
		return place == index
	}
	fields, isMap := element.(map[string]any)
	if !isMap {
		return false
	}
	for _, pair := range splitUnquoted(inner) {
		key, text, ok := strings.Cut(pair, "=")
		var want any
		if !ok || json.Unmarshal([]byte(text), &want) != nil {
			return false
		}
		if is, has := fields[key]; has && !equal(is, want) {
			return false
		}
	}
	return true
}

// splitUnquoted splits at the commas that are not in quotes.
func splitUnquoted(text string) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}
