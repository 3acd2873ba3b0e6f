package promotion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	slipway "slipway.dev/slipway/api/v1alpha1"
)

// requestTimeout bounds one request of Requests.
const requestTimeout = 30 * time.Second

// Requests writes what people request to the spec of Promotions, with the rights of its
// client. What they may request is a matter of the caller.
type Requests struct {
	// Promotions are those of the control namespace.
	Promotions dynamic.ResourceInterface
	Manager    string
}

// StateError is the error of a request that a Promotion does not admit.
type StateError struct{ message string }

// Error is written for people.
func (e *StateError) Error() string { return e.message }

// Start creates a Promotion and returns its name, which has the time if none is given.
func (r Requests) Start(ctx context.Context, product, flow, name, by string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The time makes the name readable and sortable; two within a second conflict.
	if name == "" {
		name = product + "-" + time.Now().UTC().Format("20060102-150405")
	}
	// The name is informational: the audit log of the API server has the client, and that of
	// the platform the user.
	spec := map[string]any{"product": product, "by": by}
	if flow != "" {
		spec["flow"] = flow
	}
	_, err := r.Promotions.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": slipway.Group + "/" + slipway.Version, "kind": slipway.KindPromotion,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{FieldManager: r.Manager})
	return name, err
}

// Approve records an approval.
func (r Requests) Approve(ctx context.Context, name, environment, by string) error {
	return r.change(ctx, name, func(of *slipway.Promotion) (map[string]any, error) {
		var names []string
		for i := range of.Status.Steps {
			names = append(names, of.Status.Steps[i].Environment)
		}
		// One that has not begun has no steps yet: its approval is kept until it has.
		if len(names) > 0 && !slices.Contains(names, environment) {
			return nil, &StateError{fmt.Sprintf("the Promotion %s has no environment %s: it has %s", name, environment, strings.Join(names, ", "))}
		}
		if earlier := approvalOf(of, environment); earlier != "" {
			return nil, &StateError{fmt.Sprintf("%s was approved for %s by %s already", name, environment, earlier)}
		}
		return map[string]any{"approvals": append(of.Spec.Approvals, slipway.PromotionApproval{Environment: environment, By: by})}, nil
	})
}

// Abort ends a Promotion; what was written stays. It is a field and no deletion, so that
// the record of what was written stays, too.
func (r Requests) Abort(ctx context.Context, name string) error {
	return r.change(ctx, name, func(*slipway.Promotion) (map[string]any, error) { return map[string]any{"abort": true}, nil })
}

// change patches the spec of a Promotion that has not ended, on the condition that it is
// the one that was read: two approvals at once must not overwrite each other.
func (r Requests) change(ctx context.Context, name string, with func(*slipway.Promotion) (map[string]any, error)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		object, err := r.Promotions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found := &slipway.Promotion{}
		if err := convert(object, found); err != nil {
			return err
		}
		if found.Status.FinishedAt != nil {
			return &StateError{fmt.Sprintf("the Promotion %s is %s: it has ended", name, found.Status.Phase)}
		}
		spec, err := with(found)
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": found.ResourceVersion}, "spec": spec})
		if err != nil {
			return err
		}
		_, err = r.Promotions.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.Manager})
		return err
	})
}
