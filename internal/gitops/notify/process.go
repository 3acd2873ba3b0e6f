package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/notify/message"
)

const (
	// takeoverDelay is how long intents of another replica are left to it after this one
	// has started: the other may have lost the Lease while it was sending.
	takeoverDelay = sendTimeout + writeTimeout
	// writeTimeout bounds a write of the record.
	writeTimeout = 5 * time.Second
	// writeTries is how often an Application is read again after a conflict.
	writeTries = 5
	// fieldManager is the name of our writes in managedFields.
	fieldManager = "slipway-notifications"
)

// delivery is a message that is due.
type delivery struct {
	// key is that of the record.
	key, trigger string
	templates    []string
	to           Destination
}

// application is one version of an Application that is processed.
type application struct {
	name     types.NamespacedName
	object   *unstructured.Unstructured
	project  *unstructured.Unstructured
	settings *Settings
	record   record
	// current are the keys that count now.
	current map[string]bool
	// dirty: the record differs from the annotation.
	dirty bool
}

// process sends what is due about an Application. It returns when to look again; 0 for
// not before it changes.
func (c *Controller) process(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	object, stale := c.take(name)
	if stale {
		return 0, nil
	}
	var again time.Duration
	var err error
	for try := range writeTries {
		if object == nil || try > 0 {
			object, err = c.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return 0, nil
			}
			if err != nil {
				return 0, fmt.Errorf("read the Application: %w", err)
			}
			unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
		}
		again, err = c.processVersion(ctx, name, object)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return again, err
}

// processVersion sends what is due by one version of an Application.
func (c *Controller) processVersion(ctx context.Context, name types.NamespacedName, object *unstructured.Unstructured) (time.Duration, error) {
	a := &application{
		name: name, object: object, project: c.projectOf(object), settings: c.settings.Load(), current: map[string]bool{},
		record: readRecord(object.GetAnnotations()[RecordAnnotation]),
	}
	if !a.settings.Active() {
		return 0, nil
	}
	if pause := c.awaitStatus(name, object); pause > 0 {
		return pause, nil
	}
	byTrigger, problems := a.settings.subscriptionsOf(object.GetLabels(), object.GetAnnotations(), a.project.GetAnnotations())
	c.reportSubscriptions(ctx, object, problems)
	if len(byTrigger) == 0 {
		return 0, nil
	}
	results, err := c.evaluate(ctx, a, byTrigger)
	if err != nil {
		return 0, err
	}
	c.mergeUnwritten(a)
	due := a.due(byTrigger, results)
	ready, again := c.ready(ctx, a, due)
	for _, one := range ready {
		if !a.record.hasIntent(one.key) || a.record.sender(one.key) != c.sender {
			a.record.intend(one.key, c.sender, time.Now())
			a.dirty = true
		}
	}
	// The version that was evaluated has to be the current one: another replica may have
	// sent the same meanwhile.
	if err := c.write(ctx, a, true); err != nil {
		return 0, err
	}
	for _, one := range ready {
		if ctx.Err() != nil {
			break
		}
		pause, err := c.deliver(ctx, a, one)
		if err != nil {
			return 0, err
		}
		again = sooner(again, pause)
	}
	return again, nil
}

// sooner returns the smaller one of two delays, of which 0 is none.
func sooner(x, y time.Duration) time.Duration {
	if x == 0 || y > 0 && y < x {
		return y
	}
	return x
}

// evaluate evaluates the triggers that have subscribers.
func (c *Controller) evaluate(ctx context.Context, a *application, byTrigger map[string][]Destination) (map[string][]message.Result, error) {
	triggers, texts := map[string][]message.Condition{}, []string{}
	for name := range byTrigger {
		triggers[name] = a.settings.Triggers[name]
		for _, condition := range triggers[name] {
			texts = append(texts, condition.When, condition.OncePer)
		}
	}
	request, err := c.request(ctx, a, withDeployedRevision(a.object), texts)
	if err != nil {
		return nil, err
	}
	request.Triggers = triggers
	response, err := c.options.Evaluator.Notify(ctx, a.projectName(), request)
	if err != nil {
		return nil, fmt.Errorf("evaluate the triggers: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(response.Results)) {
		for _, result := range response.Results[name] {
			if result.Problem != "" {
				c.options.Log.Debug("a condition of a trigger has no value", "trigger", name, "application", a.name.String(), "reason", result.Problem)
			}
		}
	}
	return response.Results, nil
}

// request returns what all requests of an Application have. Secrets, commits and what the
// edges serve are part of it if the texts use them.
func (c *Controller) request(ctx context.Context, a *application, object *unstructured.Unstructured, texts []string) (message.Request, error) {
	request := message.Request{Context: a.settings.Context}
	var err error
	if request.Object, err = json.Marshal(object.Object); err != nil {
		return request, fmt.Errorf("encode the Application: %w", err)
	}
	if request.Project, err = json.Marshal(a.project.Object); err != nil {
		return request, fmt.Errorf("encode the AppProject: %w", err)
	}
	all := strings.Join(texts, "\n")
	if strings.Contains(all, "secrets") {
		request.Secrets = a.settings.secrets
	}
	if strings.Contains(all, "edge") {
		request.Edge = c.edgeOf(object)
	}
	if strings.Contains(all, "GetCommitMetadata") {
		request.Commits = c.commits(ctx, a)
	}
	return request, nil
}

// projectName is the name of the project, for fairness between projects.
func (a *application) projectName() string { return a.project.GetName() }

// due returns the messages that are not sent yet, and drops entries of conditions that
// no longer hold: the next time that they do there is a message again.
func (a *application) due(byTrigger map[string][]Destination, results map[string][]message.Result) []delivery {
	var due []delivery
	for _, trigger := range slices.Sorted(maps.Keys(byTrigger)) {
		conditions := a.settings.Triggers[trigger]
		for i, result := range results[trigger] {
			for _, to := range byTrigger[trigger] {
				one := delivery{key: entryKey(trigger, result, to), trigger: trigger, templates: conditions[i].Send, to: to}
				a.dropOutdated(one, result)
				switch {
				case result.Triggered && a.record.hasSent(one.key):
					a.current[one.key] = true
				case result.Triggered:
					a.current[one.key] = true
					due = append(due, one)
				default:
					a.notTriggered(one, conditions[i], result)
				}
			}
		}
	}
	return due
}

// notTriggered drops the entry of a condition that is false. One that could not be
// evaluated is not false.
func (a *application) notTriggered(one delivery, condition message.Condition, result message.Result) {
	if suffix := suffixKey(one.trigger, result, one.to); condition.OncePer == "" && result.Problem == "" && a.record.hasSent(suffix) {
		delete(a.record, suffix)
		a.dirty = true
	}
}

// dropOutdated drops intents whose value of oncePer is no longer the current one, and of
// conditions that no longer hold: a message of the state now would be another message.
func (a *application) dropOutdated(one delivery, result message.Result) {
	for _, key := range a.record.intents(suffixKey(one.trigger, result, one.to)) {
		if result.Problem == "" && (!result.Triggered || key != one.key) {
			delete(a.record, key)
			a.dirty = true
		}
	}
}

// write writes the record, if it has changed. If it has to be for this version, another
// one is a conflict.
func (c *Controller) write(ctx context.Context, a *application, thisVersion bool) error {
	if !a.dirty {
		return nil
	}
	a.record.trim(a.current, time.Now())
	metadata := map[string]any{"uid": string(a.object.GetUID()), "annotations": map[string]any{RecordAnnotation: nil}}
	if len(a.record) > 0 {
		metadata["annotations"] = map[string]any{RecordAnnotation: a.record.String()}
	}
	if thisVersion {
		metadata["resourceVersion"] = a.object.GetResourceVersion()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	// A stop of the process does not end it: what was sent has to be recorded.
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	written, err := c.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(a.name.Namespace).
		Patch(writing, a.name.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil // it was deleted, and its record with it
	}
	if err != nil {
		return fmt.Errorf("write what was sent: %w", err)
	}
	a.dirty = false
	a.object.SetResourceVersion(written.GetResourceVersion())
	c.setVersion(a.name, written.GetResourceVersion())
	return nil
}

// mergeUnwritten adds what was sent and could not be recorded.
func (c *Controller) mergeUnwritten(a *application) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.unwritten[a.name] {
		if !a.record.hasSent(key) {
			a.record[key] = at
			a.dirty = true
		}
	}
}
