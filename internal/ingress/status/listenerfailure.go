package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// A certificate that cannot be issued or renewed is in the condition Programmed of the
// listener that requests it. Only the leader orders, so that only its writer knows.

// fetchFailures are the messages about certificates that the leader could not get, by the
// object that requests them, the name of the Secret, and the field.
type fetchFailures map[snapshot.Ref]map[string]map[string]string

// SetFetchFailure sets why the leader could not get a certificate of a listener, by the
// name of the Secret; nil clears it for all listeners of the object. It returns at once.
func (w *GatewayWriter) SetFetchFailure(object snapshot.Ref, name string, fault *refusal.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case fault == nil:
		delete(w.fetchFailures[object], name)
	default:
		if w.fetchFailures[object] == nil {
			w.fetchFailures[object] = map[string]map[string]string{}
		}
		if w.fetchFailures[object][name] == nil {
			w.fetchFailures[object][name] = map[string]string{}
		}
		w.fetchFailures[object][name][fault.Field] = fault.Message
	}
	if w.queue != nil {
		w.queue.Add(object)
	}
}

// ForgetFetchFailures drops all failures. Call it before a new term of leadership, which
// has failures of its own.
func (w *GatewayWriter) ForgetFetchFailures() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetchFailures = fetchFailures{}
}

// reported returns a status with the failures of an object in the conditions of its
// listeners. The status is copied where it changes.
func (f fetchFailures) reported(object snapshot.Ref, wanted engine.GatewayStatus) engine.GatewayStatus {
	messages := map[string]string{}
	for _, fields := range f[object] {
		for field, message := range fields {
			messages[field] = message
		}
	}
	switch {
	case len(messages) == 0:
	case wanted.Gateway != nil:
		next := *wanted.Gateway
		next.Listeners = slices.Clone(next.Listeners)
		for i := range next.Listeners {
			of := &next.Listeners[i]
			of.Conditions = withFailure(of.Conditions, messages[gateway.ResolverField(of.Name)])
		}
		wanted.Gateway = &next
	case wanted.Set != nil:
		next := *wanted.Set
		next.Listeners = slices.Clone(next.Listeners)
		for i := range next.Listeners {
			of := &next.Listeners[i]
			of.Conditions = withFailure(of.Conditions, messages[gateway.ResolverField(of.Name)])
		}
		wanted.Set = &next
	}
	return wanted
}

// withFailure returns conditions with a message in Programmed; none if it is empty.
func withFailure(conditions []metav1.Condition, message string) []metav1.Condition {
	if message == "" {
		return conditions
	}
	conditions = slices.Clone(conditions)
	for i := range conditions {
		if conditions[i].Type == string(gatewayv1.ListenerConditionProgrammed) {
			conditions[i].Message = message
		}
	}
	return conditions
}
