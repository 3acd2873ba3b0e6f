package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// The reasons that only a plan has.
const (
	// UnknownKind: the cluster has no such kind.
	UnknownKind refusal.Reason = "UnknownKind"
	// Shared: another Application owns the object.
	Shared refusal.Reason = "Shared"
	// WouldWipe: nothing would be left of the Application.
	WouldWipe refusal.Reason = "WouldWipe"
)

// The codes of warnings: types of an Application's conditions, with Argo CD's
// names.
const (
	RepeatedResourceWarning = "RepeatedResourceWarning"
	SharedResourceWarning   = "SharedResourceWarning"
	// UnknownOptionWarning is ours: Argo CD ignores sync options of objects that
	// it does not know.
	UnknownOptionWarning = "UnknownOptionWarning"
)

// warning is something that is done to an object, and that a user should see.
func warning(code string, object tracking.Key, message string) finding.Finding {
	return finding.Finding{Code: code, Severity: finding.Warning, Subject: object.String(), Message: message}
}

// Gate decides what an Application may touch. Its methods return nil, or why
// not.
type Gate interface {
	// Allows judges an object: the desired one, and the live one that would be
	// changed or deleted.
	Allows(key tracking.Key, object *unstructured.Unstructured, namespaceOfApp string) *refusal.Refusal
	// TakesOver judges whether an object of another Application may be taken.
	TakesOver(key tracking.Key) *refusal.Refusal
}

// maxMessage bounds a message of an operation. It ends in the status of an
// Application, and objects can have names of any length until they are applied.
const maxMessage = 2000

// shorten bounds a text of an object in a message.
func shorten(text string) string { return refusal.Shorten(text, 80) }

func quoted(text string) string { return fmt.Sprintf("%q", shorten(text)) }

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }
