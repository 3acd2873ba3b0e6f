package nginx

import (
	"strings"
	"sync"

	"slipway.dev/slipway/api/declare"
)

// Prefix starts the annotations.
const Prefix = "nginx.ingress.kubernetes.io/"

// Support is what becomes of an annotation or a key.
type Support string

// The kinds of support.
const (
	// Done: it is carried out.
	Done Support = "done"
	// NoEffect: there is nothing to do for it here, for the reason in the table.
	NoEffect Support = "no effect"
	// Refused: it is not carried out, and a Refusal gives the advice of the table.
	Refused Support = "refused"
)

// Setting declares an annotation, without its prefix, or a key of the ConfigMap.
type Setting struct {
	Name    string
	Support Support
	// Note is what it does here, why it has no effect, or what to do instead.
	Note string
	// Closes is set if an Ingress must not be served without the annotation.
	Closes bool
	// Off lists values of a refused setting that leave it off.
	Off []string
	// Examples are values that are carried out. Tests use all of them.
	Examples []string

	// lines is set for a text whose faults have the numbers of lines.
	lines bool
	// read parses the value.
	read func(*Settings, string) error
}

// Annotations returns the table of annotations.
func Annotations() []Setting { return tables().annotations }

// ConfigKeys returns the table of keys of the ConfigMap.
func ConfigKeys() []Setting { return tables().keys }

// declaredTables are the tables with their indexes by name.
type declaredTables struct {
	annotations, keys         []Setting
	byAnnotation, byKey       map[string]*Setting
	annotationNames, keyNames []string
}

// tables builds the indexes once, at the first use: most edges need none.
var tables = sync.OnceValue(func() *declaredTables {
	t := &declaredTables{}
	for _, part := range [][]Setting{pathAnnotations, redirectAnnotations, accessAnnotations, authAnnotations, wafAnnotations, backendAnnotations, canaryAnnotations, otherAnnotations} {
		t.annotations = append(t.annotations, part...)
	}
	t.keys = append(append(t.keys, defaultKeys...), wafKeys...)
	t.keys = append(t.keys, authKeys...)
	t.keys = append(t.keys, quietKeys()...)
	t.keys = append(t.keys, refusedKeys...)
	t.byAnnotation, t.annotationNames = indexed(t.annotations)
	t.byKey, t.keyNames = indexed(t.keys)
	return t
})

// indexed returns the settings by name, and their names.
func indexed(list []Setting) (map[string]*Setting, []string) {
	byName, names := make(map[string]*Setting, len(list)), make([]string, 0, len(list))
	for i := range list {
		byName[list[i].Name] = &list[i]
		names = append(names, list[i].Name)
	}
	return byName, names
}

// unknown is the message about a name that no table has.
func unknown(name string, known []string) string {
	if near := declare.Nearest(name, known); near != "" {
		return "ingress-nginx has none of this name: did you mean " + near + "?"
	}
	return "ingress-nginx has none of this name: remove it"
}

// trimmed returns a value without space around it. A text with lines keeps the empty ones
// at its start, because they count.
func (s *Setting) trimmed(value string) string {
	trimmed := strings.TrimSpace(value)
	if !s.lines || trimmed == "" {
		return trimmed
	}
	return strings.TrimRight(value, " \t\r\n")
}

// leavesOff reports whether a value of a refused setting leaves it off.
func (s *Setting) leavesOff(value string) bool {
	value = strings.TrimSpace(value)
	if value == "" {
		return true
	}
	for _, off := range s.Off {
		if strings.EqualFold(off, value) {
			return true
		}
	}
	return false
}
