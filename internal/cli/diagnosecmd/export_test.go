package diagnosecmd

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// PromotionState is the state of a Promotion at a time.
func PromotionState(one *slipway.Promotion, now time.Time) (state, message string) {
	return promotionState(one, now)
}

// DivisionState is the state of a division.
func DivisionState(live, running int) (state, message string) { return divisionState(live, running) }

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
