package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
)

// maxMessage bounds the message of a condition, which may quote a value of a hostile
// object.
const maxMessage = 1024

// condition returns a condition that holds.
func condition[T, R ~string](kind T, reason R, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: metav1.ConditionTrue, Reason: string(reason), Message: refusal.Shorten(message, maxMessage)}
}

// failed returns a condition that does not hold.
func failed[T, R ~string](kind T, reason R, message string) metav1.Condition {
	c := condition(kind, reason, message)
	c.Status = metav1.ConditionFalse
	return c
}

// observed sets the generation that conditions are about.
func observed(generation int64, conditions ...metav1.Condition) []metav1.Condition {
	for i := range conditions {
		conditions[i].ObservedGeneration = generation
	}
	return conditions
}
