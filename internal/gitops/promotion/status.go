package promotion

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// maxMessage bounds the messages of a status.
const maxMessage = 2 << 10

// save writes the status if it changed, on the condition that no one else wrote the
// object meanwhile: a leader of before must not overwrite what the next one recorded.
func (r *run) save(ctx context.Context) error {
	// Equal states are not written: each write is an event for all watchers.
	r.promotion.Status.ObservedGeneration = r.promotion.Generation
	if statusText(r.promotion) == r.saved {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.promotion)
	if err != nil {
		return fmt.Errorf("write the status of Promotion %s: %w", r.promotion.Name, err)
	}
	client := r.options.Cluster.Dynamic.Resource(promotionResource()).Namespace(r.promotion.Namespace)
	// The update has the resourceVersion that was read, so that it fails with a conflict
	// if a person changed the spec or another process the status.
	written, err := client.UpdateStatus(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{FieldManager: "slipway-promotions"})
	if err != nil {
		return &saveError{fmt.Errorf("write the status of Promotion %s: %w", r.promotion.Name, err)}
	}
	made := &slipway.Promotion{}
	if err := convert(written, made); err != nil {
		return &saveError{err}
	}
	// The response is the state that the next write is based on.
	*r.promotion = *made
	r.saved = statusText(made)
	return nil
}

// saveError is a status that was not written. It ends a run: nothing may be written to
// Git that is not recorded before.
type saveError struct{ error }

// Unwrap returns the cause.
func (e *saveError) Unwrap() error { return e.error }

// statusText is the status for a comparison.
func statusText(of *slipway.Promotion) string {
	text, err := json.Marshal(of.Status)
	if err != nil {
		return "" // it is written then
	}
	return string(text)
}

// summarize derives message and condition of a Promotion from its steps.
func (r *run) summarize() {
	status := &r.promotion.Status
	// People see one line in kubectl get: what each active environment does.
	if status.Phase == slipway.PromotionProgressing {
		status.Message = ""
		for i := range status.Steps {
			one := &status.Steps[i]
			switch one.Phase {
			case slipway.StepPending, slipway.StepSucceeded, slipway.StepSkipped:
			default:
				if status.Message != "" {
					status.Message += "; "
				}
				status.Message += one.Environment + ": " + one.Message
			}
		}
	}
	status.Message = refusal.Shorten(status.Message, maxMessage)
}

// finish ends a Promotion. Steps that have not ended are skipped.
func (r *run) finish(ctx context.Context, phase, message string) error {
	status := &r.promotion.Status
	// All of it is one write, so that no process sees a Promotion that has ended with
	// steps that go on.
	status.Phase, status.Message, status.FinishedAt = phase, refusal.Shorten(message, maxMessage), r.time()
	for i := range status.Steps {
		one := &status.Steps[i]
		switch one.Phase {
		case slipway.StepSucceeded, slipway.StepFailed, slipway.StepSkipped:
		default:
			one.Phase, one.Message, one.FinishedAt = slipway.StepSkipped, "", r.time()
		}
	}
	r.condition(phase == slipway.PromotionSucceeded, phase, message)
	if err := r.save(ctx); err != nil {
		return err
	}
	r.announce(ctx, phase != slipway.PromotionSucceeded, "Promotion"+phase, message)
	return nil
}

// condition sets the condition Succeeded. Its reason is the phase, or why a Promotion
// does not begin: Refused or Waiting.
func (r *run) condition(is bool, reason, message string) {
	// kubectl wait --for=condition=Succeeded works with it.
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	made := metav1.Condition{Type: "Succeeded", Status: status, Reason: reason, Message: refusal.Shorten(message, maxMessage), ObservedGeneration: r.promotion.Generation, LastTransitionTime: *r.time()}
	for i := range r.promotion.Status.Conditions {
		known := &r.promotion.Status.Conditions[i]
		if known.Type == made.Type {
			if known.Status == made.Status {
				made.LastTransitionTime = known.LastTransitionTime
			}
			*known = made
			return
		}
	}
	r.promotion.Status.Conditions = append(r.promotion.Status.Conditions, made)
}

// time is the time of the run, with the precision of a status.
func (r *run) time() *metav1.Time {
	now := metav1.NewTime(r.now.Truncate(1e9))
	return &now
}

// announce writes an Event about the Promotion, and a line of the log. An Event that is
// lost is no reason to stop: the status has the same. It comes after the write of the
// status, so that it never reports what did not happen.
func (r *run) announce(ctx context.Context, warning bool, reason, note string) {
	r.options.Log.Info("promotion", "promotion", r.promotion.Name, "product", r.promotion.Spec.Product, observe.KeyReason, reason, "message", note)
	r.notify(ctx, kube.Notice{
		Regarding: corev1.ObjectReference{
			APIVersion: slipway.Group + "/" + slipway.Version, Kind: slipway.KindPromotion, Namespace: r.promotion.Namespace, Name: r.promotion.Name, UID: r.promotion.UID,
		},
		Action: "Promote", Warning: warning, Reason: reason, Note: note,
	})
}

// notify writes an Event.
func (c *Controller) notify(ctx context.Context, notice kube.Notice) {
	if err := c.options.Cluster.Announce(ctx, c.options.Reporter, notice); err != nil && ctx.Err() == nil {
		c.options.Log.Warn("cannot write Event", observe.KeyError, err)
	}
}
