package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// reconcile advances a run and returns when to look at it again; zero for not before it
// changes. The run is read from the API server and not from a watch, which may not have
// the last status yet: a measurement would be taken twice.
func (c *Controller) reconcile(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	runs := c.options.Cluster.Dynamic.Resource(v1alpha1.AnalysisRunResource()).Namespace(name.Namespace)
	object, err := runs.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read AnalysisRun %s: %w", name, err)
	}
	if object.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	run, metrics, events := c.advance(ctx, object)
	if ctx.Err() != nil {
		// Measurements that were interrupted are no errors of theirs.
		return 0, ctx.Err()
	}
	if at, expires := expiry(run); expires && !at.After(c.now()) {
		uid := object.GetUID()
		err := runs.Delete(ctx, name.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("delete AnalysisRun %s: %w", name, err)
		}
		return 0, nil
	}
	if err := c.writeStatus(ctx, object, &run.Status); err != nil {
		return 0, fmt.Errorf("write the status of AnalysisRun %s: %w", name, err)
	}
	for _, event := range events {
		c.announce(ctx, run, event)
	}
	if run.Status.Phase.Completed() {
		c.providers.windows.forget(run.UID, "")
	}
	next, any := nextTime(run, metrics)
	if !any {
		return 0, nil
	}
	return max(next.Sub(c.now()), 0) + wakeDelay, nil
}

// wakeDelay is added to the time of the next measurement, which is due after it.
const wakeDelay = 5 * time.Millisecond

// event is something that is reported about a run.
type event struct {
	phase   v1alpha1.AnalysisPhase
	subject string // Metric or AnalysisRun
	note    string
}

// advance takes the measurements that are due and assesses the run. It returns the run
// with its new status, and the metrics with their arguments.
func (c *Controller) advance(ctx context.Context, object *unstructured.Unstructured) (*v1alpha1.AnalysisRun, []v1alpha1.Metric, []event) {
	run, err := decodeRun(object)
	switch {
	case run.Status.Phase.Completed():
		return run, nil, nil
	case err != nil:
		return refuse(run, fmt.Errorf("Analysis spec invalid: %w", err))
	}
	known, err := plainValues(run.Spec.Args)
	if err != nil {
		return refuse(run, fmt.Errorf("Unable to resolve metric arguments: %w", err))
	}
	metrics, err := known.substituteAll(run.Spec.Metrics)
	if err != nil {
		return refuse(run, fmt.Errorf("Unable to resolve metric arguments: %w", err))
	}
	dry, kept, err := checkRun(run, metrics)
	if err != nil {
		return refuse(run, fmt.Errorf("Analysis spec invalid: %w", err))
	}
	c.wantJobs(metrics)
	if err := c.providers.take(ctx, run, dueTasks(run, metrics, c.now()), dry); err != nil {
		return refuse(run, fmt.Errorf("Unable to resolve metric arguments: %w", err))
	}
	var events []event
	for _, result := range assess(run, metrics, dry, c.now()) {
		events = append(events, event{result.Phase, "Metric", fmt.Sprintf("Metric '%s' Completed. Result: %s", result.Name, result.Phase)})
	}
	if err := c.providers.trim(ctx, run, metrics, kept); err != nil {
		c.options.Log.Warn("old Jobs of an AnalysisRun were not deleted", "namespace", run.Namespace, "name", run.Name, observe.KeyError, err)
	}
	if run.Status.Phase.Completed() {
		events = append(events, completion(run))
	}
	return run, metrics, events
}

// checkRun checks a run, and returns what its rules say about metrics.
func checkRun(run *v1alpha1.AnalysisRun, metrics []v1alpha1.Metric) (dry map[string]bool, kept map[string]int, err error) {
	if err := checkMetrics(metrics); err != nil {
		return nil, nil, err
	}
	for i := range metrics {
		// At once, and not after the errors that a metric may have.
		if err := refuseProvider(&metrics[i].Provider); err != nil {
			return nil, nil, fmt.Errorf("metrics[%d]: %w", i, err)
		}
	}
	if dry, err = dryRuns(run.Spec.DryRun, metrics); err != nil {
		return nil, nil, err
	}
	kept, err = retentions(run.Spec.MeasurementRetention, metrics)
	return dry, kept, err
}

// refuse ends a run that cannot be carried out.
func refuse(run *v1alpha1.AnalysisRun, err error) (*v1alpha1.AnalysisRun, []v1alpha1.Metric, []event) {
	run.Status.Phase, run.Status.Message = v1alpha1.AnalysisPhaseError, shorten(err.Error())
	return run, nil, []event{completion(run)}
}

func completion(run *v1alpha1.AnalysisRun) event {
	return event{run.Status.Phase, v1alpha1.KindAnalysisRun, fmt.Sprintf("Analysis Completed. Result: %s", run.Status.Phase)}
}

// decodeRun decodes a run. With an error, it has its metadata and its status.
func decodeRun(object *unstructured.Unstructured) (*v1alpha1.AnalysisRun, error) {
	text, err := object.MarshalJSON()
	if err != nil {
		return &v1alpha1.AnalysisRun{}, err
	}
	run := new(v1alpha1.AnalysisRun)
	if err = json.Unmarshal(text, run); err == nil {
		return run, nil
	}
	var rest struct {
		metav1.ObjectMeta `json:"metadata"`
		Status            v1alpha1.AnalysisRunStatus `json:"status"`
	}
	if json.Unmarshal(text, &rest) != nil {
		return &v1alpha1.AnalysisRun{}, err
	}
	return &v1alpha1.AnalysisRun{ObjectMeta: rest.ObjectMeta, Status: rest.Status}, err
}

// writeStatus writes a status that differs from that of the object, whose version has
// to be the current one.
func (c *Controller) writeStatus(ctx context.Context, object *unstructured.Unstructured, status *v1alpha1.AnalysisRunStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return err
	}
	if before, _, _ := unstructured.NestedMap(object.Object, "status"); reflect.DeepEqual(before, content) {
		return nil
	}
	object.Object["status"] = content
	runs := c.options.Cluster.Dynamic.Resource(v1alpha1.AnalysisRunResource()).Namespace(object.GetNamespace())
	if c.subresource {
		_, err = runs.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	} else {
		_, err = runs.Update(ctx, object, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil // it was deleted in the meantime
	}
	return err
}

// announce writes an Event with the reasons of Argo Rollouts. A failure is logged only.
func (c *Controller) announce(ctx context.Context, run *v1alpha1.AnalysisRun, what event) {
	err := c.options.Cluster.Announce(ctx, c.options.Reporter, kube.Notice{
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindAnalysisRun, Namespace: run.Namespace, Name: run.Name, UID: run.UID,
		},
		Warning: what.phase == v1alpha1.AnalysisPhaseError || what.phase == v1alpha1.AnalysisPhaseFailed,
		Reason:  what.subject + string(what.phase), Action: "Analyze", Note: what.note,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		c.options.Log.Warn("an Event was not written", observe.KeyError, err)
	}
}
