// Package manifest reads Kubernetes objects from YAML and JSON text, and
// collects them.
//
// Objects have apiVersion and kind, and are JSON with sorted keys. Errors
// contain the file and the number of the document. Lists are flattened. A key
// at the top of an object that is set twice is an error; further down it is a
// warning and the last one counts, as in Argo CD.
//
// It refuses YAML whose aliases expand to much more than was written, and
// output above the limit.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// MaxValues bounds the values in all objects together: each of them takes
// memory, however short it is.
const MaxValues = 1 << 20

// ErrTooLarge is more output than the limit.
var ErrTooLarge = errors.New("the objects are larger than allowed: split the application, or raise the limit")

// Set collects objects.
type Set struct {
	limit    int64
	bytes    int64
	values   int
	objects  []json.RawMessage
	warnings []string
	// leftOut counts warnings above the most that are kept.
	leftOut int
	skip    func(object map[string]any) bool
}

// NewSet makes a Set of at most limit bytes.
func NewSet(limit int64) *Set { return &Set{limit: limit} }

// Objects are the collected objects, in their order.
func (s *Set) Objects() []json.RawMessage { return s.objects }

// Warnings are messages for the user that do not fail the render.
func (s *Set) Warnings() []string {
	if s.leftOut > 0 {
		return append(slices.Clone(s.warnings), fmt.Sprintf("%d more warnings are left out", s.leftOut))
	}
	return s.warnings
}

// maxWarnings bounds the warnings of a render: they end in the status of an
// Application, whose size is limited.
const maxWarnings = 50

// Warn adds a warning, once.
func (s *Set) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(s.warnings, text):
	case len(s.warnings) >= maxWarnings:
		s.leftOut++
	default:
		s.warnings = append(s.warnings, text)
	}
}

// Skip sets a filter for the objects that are added from here on; nil keeps
// all.
func (s *Set) Skip(skip func(object map[string]any) bool) { s.skip = skip }

// AddJSON adds the object, or the objects of a list, in a JSON text. name is
// its origin, for errors.
func (s *Set) AddJSON(name string, text []byte) error {
	if int64(len(text)) > s.limit {
		return ErrTooLarge
	}
	// Counted before the parse: a short text can have millions of values, and
	// each takes memory.
	if s.values += countValues(text); s.values > MaxValues {
		return ErrTooLarge
	}
	var content any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	object, ok := content.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", name)
	}
	return s.add(name, object, 0)
}

// maxNesting is how deep lists may be in lists.
const maxNesting = 4

// add keeps an object, or flattens a list and adds its elements.
func (s *Set) add(name string, object map[string]any, depth int) error {
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	switch {
	case kind == "":
		return fmt.Errorf("%s has no kind", name)
	case version == "":
		return noVersion(name, kind, object)
	case !isList(kind, object):
		return s.keep(name, object)
	case depth >= maxNesting:
		return fmt.Errorf("%s has lists in lists, more than %d deep", name, maxNesting)
	}
	items, _ := object["items"].([]any)
	for i, item := range items {
		where := fmt.Sprintf("item %d of the list in %s", i+1, name)
		element, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is not an object", where)
		}
		// The elements of a ConfigMapList may leave out what they are.
		if element["kind"] == nil && kind != "List" {
			element["kind"], element["apiVersion"] = strings.TrimSuffix(kind, "List"), version
		}
		if err := s.add(where, element, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// isList distinguishes lists, also one without items, from objects that have a
// field called items.
func isList(kind string, object map[string]any) bool {
	items, ok := object["items"]
	if !ok || !strings.HasSuffix(kind, "List") {
		return false
	}
	switch items.(type) {
	case []any:
		return true
	case nil:
		return object["spec"] == nil && object["status"] == nil
	}
	return false
}

// keep encodes an object and counts it against the limit.
func (s *Set) keep(name string, object map[string]any) error {
	if metadata, ok := object["metadata"]; ok && metadata != nil {
		if _, ok := metadata.(map[string]any); !ok {
			return fmt.Errorf("%s has metadata that is not an object", name)
		}
	}
	if s.skip != nil && s.skip(object) {
		return nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if s.bytes += int64(len(text)); s.bytes > s.limit {
		return ErrTooLarge
	}
	s.objects = append(s.objects, text)
	return nil
}

// countValues is at least the number of values in a JSON text.
func countValues(text []byte) int {
	count, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch char := text[i]; {
		case quoted && char == '\\':
			i++
		case char == '"':
			quoted = !quoted
		case !quoted && (char == ',' || char == '{' || char == '['):
			count++
		}
	}
	return count
}

// WithinValues reports whether a JSON text has at most MaxValues values.
func WithinValues(text []byte) bool { return countValues(text) <= MaxValues }
