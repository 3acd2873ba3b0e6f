package diagnosecmd

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// DatabaseState is the state of the platform's database.
func DatabaseState(found *platformv1.PlatformDatabase) (state, message string) {
	return databaseState(found)
}

// ReadyCondition is the state of an object by its condition Ready.
func ReadyCondition(object *unstructured.Unstructured) (state, message string) {
	return readyCondition(object)
}

// Redact takes a secret, and what looks like one, out of a text.
func Redact(known, text string) string {
	hide := newRedactor()
	hide.know(known)
	return hide.text(text)
}
