package values

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
)

// MaxBytes bounds a file of values, which is held in memory. Helm stores the
// values in a Secret, and the API server bounds that to the same size.
const MaxBytes = 1 << 20

// The codes of findings, for programs that read the report. Only CodeIgnored
// is a warning.
const (
	CodeUnreadable = "ValuesUnreadable"
	CodeUnknown    = "ValueUnknown"
	CodeKind       = "ValueKind"
	CodeRule       = "ValueInvalid"
	CodeAlias      = "ValueAliasConflict"
	CodeIgnored    = "ValueIgnored"
)

// Document is a set of values over the defaults of a chart.
type Document struct {
	catalogue Catalogue
	// given are the decoded values. They are shared with the caller and never
	// changed.
	given map[string]any
}

// Read decodes a values file and reports all its problems. The document has
// what could be decoded.
func Read(catalogue Catalogue, from io.Reader) (Document, []finding.Finding) {
	text, err := io.ReadAll(io.LimitReader(from, MaxBytes+1))
	switch {
	case err != nil:
		return New(catalogue, nil), wrong(CodeUnreadable, "", "the values cannot be read: "+err.Error(), "name a file that can be read")
	case len(text) > MaxBytes:
		return New(catalogue, nil), wrong(CodeUnreadable, "", fmt.Sprintf("the values have more than %d bytes", MaxBytes), "leave out what the chart does not know")
	}
	given := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return New(catalogue, nil), wrong(CodeUnreadable, "", "the values are no YAML: "+withoutText(err), "correct it, one key to a line and two spaces for each level")
	}
	document := New(catalogue, given)
	return document, document.Check()
}

// withoutText returns the position of a YAML error. Messages of the decoder may
// quote the text, which may be part of a secret.
func withoutText(err error) string {
	message := err.Error()
	// Only the number of the line is safe to repeat.
	if at := strings.Index(message, "line "); at >= 0 {
		end := strings.IndexFunc(message[at+5:], func(r rune) bool { return r < '0' || r > '9' })
		if end > 0 {
			line := message[at : at+5+end]
			if strings.Contains(message, "already defined") || strings.Contains(message, "already set") {
				return line + " has a key that is there already"
			}
			return line
		}
	}
	return "it has to be one map of keys"
}

// New returns a document of decoded values. Aliases are resolved when values
// are read.
func New(catalogue Catalogue, given map[string]any) Document {
	return Document{catalogue: catalogue, given: given}
}

// raw returns the value of a key: what is given for it, else for its alias,
// else the default. Empty texts and the default itself count as not given.
func (d Document) raw(key string) any {
	value, known := d.catalogue.Find(key)
	own, there := lookup(d.given, key)
	if there && (!known || !value.unchanged(own)) {
		return own
	}
	if known && value.Alias != "" {
		if other, found := lookup(d.given, value.Alias); found && !value.unchanged(other) {
			return other
		}
	}
	// The key has its default, and there is no alias with another value.
	if there {
		return own
	}
	given, _ := value.initial()
	return given
}

// unchanged reports whether a value equals the default.
func (v Value) unchanged(given any) bool {
	initial, _ := v.initial()
	return given == nil || given == "" || reflect.DeepEqual(given, initial)
}

// Text returns the text of a key. It is empty for a value of another kind,
// which Check reports.
func (d Document) Text(key string) string { text, _ := d.raw(key).(string); return text }

// Flag returns the flag of a key. It is false for a value of another kind,
// which Check reports.
func (d Document) Flag(key string) bool { flag, _ := d.raw(key).(bool); return flag }

// FlagIfSet returns nil for a flag that is not set: some flags have a default
// that depends on other values.
func (d Document) FlagIfSet(key string) *bool {
	if flag, ok := d.raw(key).(bool); ok {
		return &flag
	}
	return nil
}

// Texts returns the texts of a list. Elements of another kind are left out;
// Check reports them.
func (d Document) Texts(key string) []string {
	list, _ := d.raw(key).([]any)
	var made []string
	for _, each := range list {
		if text, ok := each.(string); ok {
			made = append(made, text)
		}
	}
	return made
}

// TextMap returns a map of texts. Values of another kind are left out.
func (d Document) TextMap(key string) map[string]string {
	found, _ := d.raw(key).(map[string]any)
	made := map[string]string{}
	for name, each := range found {
		if text, ok := each.(string); ok {
			made[name] = text
		}
	}
	return made
}

// Object returns an object as given, nil if it is none.
func (d Document) Object(key string) map[string]any {
	found, _ := d.raw(key).(map[string]any)
	return found
}

// Objects decodes a list of objects, and refuses unknown fields.
func Objects[T any](d Document, key string) ([]T, error) {
	text, err := yaml.Marshal(d.raw(key))
	if err != nil {
		return nil, err
	}
	var made []T
	if err := yaml.UnmarshalStrict(text, &made); err != nil {
		// The decoder's error is dropped, because it may quote the values.
		return nil, fmt.Errorf("%s has a field that is not known or of another kind", key)
	}
	return made, nil
}

// KeepsDefinitions reports whether the definitions of Argo CD are left to the
// user and are no part of the release (R25).
func (d Document) KeepsDefinitions() bool {
	value, _ := lookup(d.given, "argo-cd.crds.install")
	install, given := value.(bool)
	return given && !install
}

// ServesGateways reports whether the edge of the runtime serves Gateway API, as the
// chart decides it.
func (d Document) ServesGateways() bool {
	on := func(key string, standard bool) bool {
		value, _ := lookup(d.given, key)
		if set, given := value.(bool); given {
			return set
		}
		return standard
	}
	return on("edge.enabled", true) && on("edge.gatewayAPI.enabled", false) && !on("global.runtime.singleNamespace", false)
}
