package plan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// Reason is the class of a refusal in one word. It becomes the reason of an
// Event and the label of a metric.
type Reason string

// The reasons.
const (
	// Invalid: a value is not one of those that are possible.
	Invalid Reason = "Invalid"
	// NotAllowed: the project forbids it. A Gate may have reasons of its own.
	NotAllowed Reason = "NotAllowed"
	// UnknownKind: the cluster has no such kind.
	UnknownKind Reason = "UnknownKind"
	// Shared: another Application owns the object.
	Shared Reason = "Shared"
	// WouldWipe: nothing would be left of the Application.
	WouldWipe Reason = "WouldWipe"
)

// Refusal is something that is not done. It ends in the Application's status
// and an Event.
type Refusal struct {
	Object tracking.Key
	// Field is the place in the object, empty for all of it.
	Field   string
	Reason  Reason
	Message string
}

// Error is the refusal for people.
func (r Refusal) Error() string {
	text := r.Message
	if r.Field != "" {
		text = r.Field + ": " + text
	}
	if r.Object != (tracking.Key{}) {
		text = r.Object.String() + ": " + text
	}
	return text
}

// Condition is the type of an Application's condition, with Argo CD's names.
type Condition string

// The conditions that a plan can report.
const (
	RepeatedResourceWarning Condition = "RepeatedResourceWarning"
	SharedResourceWarning   Condition = "SharedResourceWarning"
	// UnknownOptionWarning is ours: Argo CD ignores sync options of objects that
	// it does not know.
	UnknownOptionWarning Condition = "UnknownOptionWarning"
)

// Warning is something that is done, and that a user should see.
type Warning struct {
	Condition Condition
	Object    tracking.Key
	Message   string
}

// Gate decides what an Application may touch. It returns nil, or why not. The
// object is the desired one, or the live one of a deletion.
type Gate interface {
	Allows(key tracking.Key, object *unstructured.Unstructured, namespaceOfApp string) *Refusal
}

// maxMessage bounds a message of an operation. It ends in the status of an
// Application, and objects can have names of any length until they are applied.
const maxMessage = 2000

// shorten bounds a text of an object in a message.
func shorten(text string) string { return bounded(text, 80) }

// bounded cuts a text at a length and makes it UTF-8.
func bounded(text string, most int) string {
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

func quoted(text string) string { return fmt.Sprintf("%q", shorten(text)) }

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }
