// Package refusal has the one type for a part of an input that is not acted
// upon: of a Kubernetes object, a file of a repository, a policy or a routing
// table. Decoders make it, translators and planners complete it, and Events,
// conditions, metrics, the CLI and the console show it.
//
// It promises a Reason that programs can compare and a Message with
// what is wrong and what to do.
//
// It refuses to import anything: every plane uses it.
package refusal

import (
	"cmp"
	"fmt"
	"strings"
)

// Reason is the class of a refusal: one CamelCase word. It becomes the reason
// of an Event and the label of a metric, so the set is small and stable.
type Reason string

// The reasons that several packages share. A package may have others.
const (
	// Conflict: an older object has claimed something else, or two values
	// cannot go together.
	Conflict Reason = "Conflict"
	// Duplicate: two things have one identity.
	Duplicate Reason = "Duplicate"
	// HostNotGranted: a host belongs to another namespace, which has not granted
	// it.
	HostNotGranted Reason = "HostNotGranted"
	// Ignored: it is accepted and has no effect.
	Ignored Reason = "Ignored"
	// Invalid: a value is out of its range or form.
	Invalid Reason = "Invalid"
	// NotAllowed: a project or an option forbids it.
	NotAllowed Reason = "NotAllowed"
	// NotFound: a referenced object does not exist.
	NotFound Reason = "NotFound"
	// NotReady: a referenced object has not been read or issued yet.
	NotReady Reason = "NotReady"
	// Required: something is missing.
	Required Reason = "Required"
	// TooLarge: a limit on a size is exceeded.
	TooLarge Reason = "TooLarge"
	// TooMany: a limit on a number is exceeded.
	TooMany Reason = "TooMany"
	// Unknown: an undeclared name; most are misspelt.
	Unknown Reason = "Unknown"
	// Unreadable: a referenced object cannot be read.
	Unreadable Reason = "Unreadable"
	// Unsupported: the value is valid and not implemented here.
	Unsupported Reason = "Unsupported"
)

// Object identifies the object that a refusal is about. All fields are empty
// while a decoder does not know it.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns the object for messages: Deployment.apps shop/web.
func (o Object) String() string {
	kind, name := cmp.Or(o.Kind, "object without a kind"), cmp.Or(o.Name, "(no name)")
	if o.Group != "" {
		kind += "." + o.Group
	}
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return kind + " " + name
}

// Compare orders by kind, group, namespace, name.
func (o Object) Compare(other Object) int {
	return cmp.Or(
		strings.Compare(o.Kind, other.Kind), strings.Compare(o.Group, other.Group),
		strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Name, other.Name),
	)
}

// Refusal is a part of an input that is not acted upon, and why. Functions
// return a *Refusal as an error; lists hold values.
type Refusal struct {
	Object
	// Field is the place in the object, such as spec.rules[0].host or
	// metadata.annotations[slipway.dev/rate-limit]; empty for all of it.
	Field  string `json:"field,omitempty"`
	Reason Reason `json:"reason"`
	// Message is a sentence with the problem and what to do. It does not repeat
	// the field, and never contains the value of a Secret.
	Message string `json:"message"`
}

// New returns a refusal whose object is not known yet.
func New(field string, reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Error returns object, field and message on one line.
func (r Refusal) Error() string {
	if r.Object == (Object{}) {
		return r.Text()
	}
	return r.Object.String() + ": " + r.Text()
}

// String is Error. Without it, the method of the embedded Object would be used.
func (r Refusal) String() string { return r.Error() }

// Text returns field and message, for an Event or a condition of the object
// itself.
func (r Refusal) Text() string {
	if r.Field == "" {
		return r.Message
	}
	return r.Field + ": " + r.Message
}

// At returns the refusal with its field below another one.
func (r Refusal) At(field string) *Refusal {
	switch {
	case r.Field == "":
		r.Field = field
	case field == "":
	case strings.HasPrefix(r.Field, "["):
		r.Field = field + r.Field
	default:
		r.Field = field + "." + r.Field
	}
	return &r
}

// Of returns the refusal with its object.
func (r Refusal) Of(object Object) Refusal {
	r.Object = object
	return r
}

// Compare orders refusals for stable output.
func (r Refusal) Compare(other Refusal) int {
	return cmp.Or(
		r.Object.Compare(other.Object), strings.Compare(r.Field, other.Field),
		cmp.Compare(r.Reason, other.Reason), strings.Compare(r.Message, other.Message),
	)
}

// Summary joins the texts of refusals into one for a condition.
func Summary(refusals []Refusal) string {
	texts := make([]string, 0, len(refusals))
	for _, r := range refusals {
		texts = append(texts, r.Text())
	}
	return strings.Join(texts, "; ")
}

// Bounded keeps the first refusals and counts the rest: a status has a size.
func Bounded(refusals []Refusal, most int) []Refusal {
	if len(refusals) <= most {
		return refusals
	}
	last := refusals[most]
	last.Message = fmt.Sprintf("this is the first of %d problems that are not listed: correct those above first", len(refusals)-most)
	return append(refusals[:most:most], last)
}

// Shorten truncates a text of an input for a message, and makes it UTF-8: a
// hostile object can have a value of any length, and Events refuse other bytes.
func Shorten(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
