package appset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/kube"
)

// v1alpha1Kind is the kind of an ApplicationSet.
func v1alpha1Kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.KindApplicationSet}
}

// The reasons of conditions, with Argo CD's words.
const (
	reasonUpToDate   = "ApplicationSetUpToDate"
	reasonParameters = "ParametersGenerated"
	reasonInvalid    = "ApplicationValidationError"
	reasonGeneration = "ApplicationParamsGenerationError"
	reasonCreate     = "CreateApplicationError"
	reasonUpdate     = "UpdateApplicationError"
	reasonDelete     = "DeleteApplicationError"
	// Not Argo CD's.
	reasonIgnored = "FieldsIgnored"
	reasonKept    = "ApplicationsKept"
	reasonReport  = "PreviewNotReported"
)

const (
	// maxMessage bounds the message of a condition.
	maxMessage = 2000
	// maxListed bounds the Applications in the status.
	maxListed = 1000
)

// passResult is the result of a reconcile run.
type passResult struct {
	reason string
	err    error
	// generated means that the Applications were generated, even if writing
	// them failed.
	generated bool
	// rollout is nil without the strategy RollingSync, and if the Applications
	// were not generated.
	rollout *rollout
	// note is what the generators left out.
	note string
}

// parametersMessage is that of Argo CD, with what was left out.
func (r passResult) parametersMessage() string {
	const fine = "Successfully generated parameters for all Applications"
	if r.note == "" {
		return fine
	}
	return fine + "; " + r.note
}

// conditions converts the result. Types, reasons and messages are those of Argo
// CD, because dashboards and alerts match on them.
func (r passResult) conditions() []v1alpha1.ApplicationSetCondition {
	const fine = "ApplicationSet up to date"
	if r.err == nil {
		return []v1alpha1.ApplicationSetCondition{
			{Type: v1alpha1.SetConditionErrorOccurred, Status: "False", Reason: reasonUpToDate, Message: fine},
			{Type: v1alpha1.SetConditionParametersGenerated, Status: "True", Reason: reasonParameters, Message: r.parametersMessage()},
			{Type: v1alpha1.SetConditionResourcesUpToDate, Status: "True", Reason: reasonUpToDate, Message: fine},
		}
	}
	message := oneLine(r.err.Error())
	parameters := v1alpha1.ApplicationSetCondition{Type: v1alpha1.SetConditionParametersGenerated, Status: "False", Reason: "ErrorOccurred", Message: message}
	if r.generated {
		parameters.Status, parameters.Reason, parameters.Message = "True", reasonParameters, r.parametersMessage()
	}
	return []v1alpha1.ApplicationSetCondition{
		{Type: v1alpha1.SetConditionErrorOccurred, Status: "True", Reason: r.reason, Message: message},
		parameters,
		{Type: v1alpha1.SetConditionResourcesUpToDate, Status: "False", Reason: r.reason, Message: message},
	}
}

// ignoredFields is the condition for the fields of a set that are accepted and
// have no effect; none if there are no such fields.
func ignoredFields(warnings []refusal.Refusal) []v1alpha1.ApplicationSetCondition {
	if len(warnings) == 0 {
		return nil
	}
	return []v1alpha1.ApplicationSetCondition{{
		Type: v1alpha1.SetConditionIgnoredFieldWarning, Status: "True", Reason: reasonIgnored,
		Message: oneLine(refusal.Summary(warnings)),
	}}
}

// oneLine bounds a message and joins its lines.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > maxMessage {
		return strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}

// writeStatus writes the status of a set if it changed. A new error is logged
// and becomes an Event.
func (c *Controller) writeStatus(ctx context.Context, set *v1alpha1.ApplicationSet, how passResult) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	now := slices.Concat(how.conditions(), rolloutConditions(set, how.rollout), ignoredFields(set.Warnings))
	conditions, news := since(set.Status.Conditions, now, time.Now())
	resources, count := c.listed(set)
	states, statesChanged := rolloutStates(set, how.rollout)
	// An equal status is not written: every write is an event for all watchers.
	if !news && !statesChanged && count == set.Status.ResourcesCount && sameResources(resources, set.Status.Resources) {
		return nil
	}
	if news && how.err != nil {
		c.options.Log.Warn("ApplicationSet failed", "set", set.Namespace+"/"+set.Name, "reason", how.reason, "error", how.err)
		c.announce(ctx, set, how)
	}
	// Other fields of the status belong to Argo CD's own controller and are
	// left alone.
	status := map[string]any{"conditions": conditions, "resources": resources, "resourcesCount": count}
	if statesChanged {
		status["applicationStatus"] = states
	}
	// The UID makes the API server refuse the patch for a set that was created
	// again under the name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": string(set.UID)}, "status": status})
	if err != nil {
		return err
	}
	written, err := c.options.Cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(set.Namespace).
		Patch(ctx, set.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("the status of %s/%s cannot be written: %w", set.Namespace, set.Name, err)
	}
	// Managed fields are most of an object and are not needed.
	unstructured.RemoveNestedField(written.Object, "metadata", "managedFields")
	c.noteSet(written, fromWrite)
	return nil
}

// since keeps the transition times of unchanged conditions, and reports whether
// one changed. Its result has the transition times; the order is that of now.
func since(before, now []v1alpha1.ApplicationSetCondition, at time.Time) ([]v1alpha1.ApplicationSetCondition, bool) {
	news := len(before) != len(now)
	for i := range now {
		old := slices.IndexFunc(before, func(b v1alpha1.ApplicationSetCondition) bool { return b.Type == now[i].Type })
		if old >= 0 && before[old].Status == now[i].Status && before[old].Reason == now[i].Reason && before[old].Message == now[i].Message {
			now[i].LastTransitionTime = before[old].LastTransitionTime
			continue
		}
		news = true
		stamp := metav1.NewTime(at.Truncate(time.Second))
		now[i].LastTransitionTime = &stamp
	}
	return now, news
}

// listed returns the Applications for the status, and their number. The list is
// cut at maxListed, so that a set with thousands of Applications does not exceed
// the size limit of an object; the number is exact.
func (c *Controller) listed(set *v1alpha1.ApplicationSet) ([]v1alpha1.ResourceStatus, int64) {
	owned := c.ownedBy(set)
	names := slices.Sorted(maps.Keys(owned))
	resources := make([]v1alpha1.ResourceStatus, 0, min(len(names), maxListed))
	for _, name := range names[:min(len(names), maxListed)] {
		one := v1alpha1.ResourceStatus{
			Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.KindApplication,
			Namespace: set.Namespace, Name: name, Status: owned[name].sync,
		}
		if health := owned[name].health; health != "" {
			one.Health = &v1alpha1.HealthStatus{Status: health}
		}
		resources = append(resources, one)
	}
	return resources, int64(len(names))
}

// rolloutConditions is the condition of a rollout. It stays as it is while the
// Applications cannot be generated.
func rolloutConditions(set *v1alpha1.ApplicationSet, r *rollout) (kept []v1alpha1.ApplicationSetCondition) {
	if r != nil {
		return []v1alpha1.ApplicationSetCondition{r.condition()}
	}
	for _, condition := range set.Status.Conditions {
		if condition.Type == v1alpha1.SetConditionRolloutProgressing && set.Spec.Strategy.IsRolling() {
			kept = append(kept, condition)
		}
	}
	return kept
}

// rolloutStates returns the states of a rollout, and whether the status has
// others. A set without a rollout has none.
func rolloutStates(set *v1alpha1.ApplicationSet, r *rollout) ([]v1alpha1.ApplicationSetApplicationStatus, bool) {
	if r == nil {
		return nil, !set.Spec.Strategy.IsRolling() && len(set.Status.ApplicationStatus) > 0
	}
	states := r.list()
	return states, !slices.EqualFunc(states, set.Status.ApplicationStatus, func(a, b v1alpha1.ApplicationSetApplicationStatus) bool {
		return a.Application == b.Application && a.Status == b.Status && a.Message == b.Message && a.Step == b.Step &&
			slices.Equal(a.TargetRevisions, b.TargetRevisions) && a.LastTransitionTime.Equal(b.LastTransitionTime)
	})
}

// sameResources compares the shown fields of resources.
func sameResources(a, b []v1alpha1.ResourceStatus) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.ResourceStatus) bool {
		sameHealth := (x.Health == nil) == (y.Health == nil) && (x.Health == nil || x.Health.Status == y.Health.Status)
		return x.Namespace == y.Namespace && x.Name == y.Name && x.Status == y.Status && sameHealth
	})
}

// announce writes an Event about an error. A failure is not retried, as the
// status has the same message.
func (c *Controller) announce(ctx context.Context, set *v1alpha1.ApplicationSet, how passResult) {
	if c.options.Reporter.Controller == "" {
		return
	}
	err := c.options.Cluster.Announce(ctx, c.options.Reporter, kube.Notice{
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindApplicationSet, Namespace: set.Namespace, Name: set.Name, UID: set.UID,
		},
		Warning: true, Reason: how.reason, Action: "Generate", Note: how.err.Error(), Times: 1,
	})
	if err != nil {
		c.options.Log.Debug("cannot write an Event", "error", err)
	}
}

// removeRefreshAnnotation confirms a requested generation. The UID in the patch
// protects a set that was created again.
func (c *Controller) removeRefreshAnnotation(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetAnnotations()[refreshAnnotation] == "" || ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": string(object.GetUID()), "annotations": map[string]any{refreshAnnotation: nil},
	}})
	if err != nil {
		return err
	}
	_, err = c.options.Cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the annotation %s cannot be removed: %w", refreshAnnotation, err)
	}
	return nil
}
