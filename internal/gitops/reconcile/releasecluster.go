package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/release"
)

// requestedAction is what a user requests; empty for nothing. What is no action is
// removed like one, and has no effect.
func requestedAction(of *slipway.Release) (action slipway.ReleaseAction, isRequested bool) {
	value, isRequested := of.Annotations[slipway.AnnotationReleaseRequest]
	if !isRequested {
		return "", false
	}
	action, _, _ = slipway.ParseReleaseRequest(value)
	return action, true
}

// slipwayObjects are the objects of one of our kinds in a namespace.
func (p *reconcileRun) slipwayObjects(resource, namespace string) dynamic.ResourceInterface {
	return p.Cluster.Dynamic.Resource(schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: resource}).Namespace(namespace)
}

// readSlipway reads one of our objects, and reports whether it exists.
func (p *reconcileRun) readSlipway(ctx context.Context, resource string, key tracking.Key, into any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	object, err := p.slipwayObjects(resource, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = decodeObject(object, into)
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", resource, key.Name, err)
	}
	return true, nil
}

// readRelease reads the Release of a Deployment; nil if there is none.
func (p *reconcileRun) readRelease(ctx context.Context, of tracking.Key) (*slipway.Release, error) {
	found := &slipway.Release{}
	if exists, err := p.readSlipway(ctx, slipway.ResourceRelease, of, found); err != nil || !exists {
		return nil, err
	}
	return found, nil
}

// releasePolicy is the policy that a Deployment or its Application names; nil if
// neither does, or if the Deployment cannot run two revisions. One that is not in
// the cluster yet may come with the same sync.
func (p *reconcileRun) releasePolicy(ctx context.Context, set *plan.Set, desired *plan.Desired) (*release.Policy, error) {
	name, named := desired.Object.GetAnnotations()[release.Annotation]
	if !named {
		name = p.app.Annotations[release.Annotation]
	}
	strategy, _, _ := unstructured.NestedString(desired.Object.Object, "spec", "strategy", "type")
	isPaused, _, _ := unstructured.NestedBool(desired.Object.Object, "spec", "paused")
	if name == "" || name == "off" || strategy == "Recreate" || isPaused {
		return nil, nil
	}
	if policy, known := release.Default(name); known {
		return policy, nil
	}
	key := tracking.Key{Group: slipway.Group, Kind: slipway.KindReleasePolicy, Namespace: desired.Key.Namespace, Name: name}
	found := &slipway.ReleasePolicy{}
	exists, err := p.readSlipway(ctx, slipway.ResourceReleasePolicy, key, found)
	if err == nil && !exists {
		exists, err = policyOf(set, key, found)
	}
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, fmt.Errorf("there is no ReleasePolicy %s in namespace %s: make it, or write canary or blue-green into the annotation %s", name, key.Namespace, release.Annotation)
	}
	return release.FromSpec(&found.Spec), nil
}

// policyOf decodes a ReleasePolicy of the desired objects, and reports whether there is one.
func policyOf(set *plan.Set, key tracking.Key, into *slipway.ReleasePolicy) (bool, error) {
	for _, desired := range set.Resources() {
		if desired.Key != key {
			continue
		}
		if err := decodeObject(desired.Object, into); err != nil {
			return false, fmt.Errorf("read %s: %w", key, err)
		}
		return true, nil
	}
	return false, nil
}

// decodeObject decodes an object into its type.
func decodeObject(object *unstructured.Unstructured, into any) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// replicaSet is a revision of a Deployment with its template.
type replicaSet struct {
	release.Revision
	template string
}

// replicaSets are the ReplicaSets that a Deployment controls.
func (p *reconcileRun) replicaSets(ctx context.Context, deployment *unstructured.Unstructured) ([]replicaSet, error) {
	given, _, _ := unstructured.NestedMap(deployment.Object, "spec", "selector")
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, selector); err != nil {
		return nil, fmt.Errorf("read the selector: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	list, err := p.Cluster.Dynamic.Resource(resource).Namespace(deployment.GetNamespace()).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(selector),
	})
	if err != nil {
		return nil, fmt.Errorf("list ReplicaSets: %w", err)
	}
	var sets []replicaSet
	for i := range list.Items {
		object := &list.Items[i]
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.UID != deployment.GetUID() {
			continue
		}
		ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas")
		sets = append(sets, replicaSet{template: templateOf(object), Revision: release.Revision{
			Hash: object.GetLabels()[hashLabel], UID: string(object.GetUID()), Ready: int32(ready),
		}})
	}
	return sets, nil
}

// restarts is how often a container of a revision's Pods has ended, at most. Without the
// right to read Pods it is 0: a release also notices Pods that are not ready, and errors.
func (p *reconcileRun) restarts(ctx context.Context, namespace string, of *release.Revision) (most int32) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	list, err := p.Cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: hashLabel + "=" + of.Hash})
	if err != nil {
		p.log.Debug("cannot read the Pods of a release", "error", err)
		return 0
	}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner == nil || string(owner.UID) != of.UID {
			continue
		}
		for _, container := range list.Items[i].Status.ContainerStatuses {
			most = max(most, container.RestartCount)
		}
	}
	return most
}

// writeRelease makes the Release as planned. The spec comes before the status:
// shares take effect first.
func (p *reconcileRun) writeRelease(ctx context.Context, state *releaseState) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	key := state.desired.Key
	client := p.slipwayObjects(slipway.ResourceRelease, key.Namespace)
	want, last := state.plan.Release, state.last
	if want == nil {
		if last == nil {
			return nil
		}
		uid := last.UID
		err := client.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Release: %w", err)
		}
		state.own.isActive = false
		return nil
	}
	want.APIVersion, want.Kind, want.Namespace = slipway.Group+"/"+slipway.Version, slipway.KindRelease, key.Namespace
	isController := true
	want.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: state.live.GetName(), UID: state.live.GetUID(), Controller: &isController,
	}}
	if state.isHandled {
		delete(want.Annotations, slipway.AnnotationReleaseRequest)
	}
	status := want.Status
	switch {
	case last == nil:
		if err := sendRelease(want, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		}); err != nil {
			return fmt.Errorf("create Release: %w", err)
		}
	case state.isHandled || !sameJSON(last.Spec, want.Spec):
		if err := sendRelease(want, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return client.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
		}); err != nil {
			return fmt.Errorf("write the shares of Release: %w", err)
		}
	}
	state.own.isActive = true
	if last != nil && sameJSON(last.Status, status) {
		return nil
	}
	status.ObservedGeneration = want.Generation
	want.Status = status
	if err := sendRelease(want, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.UpdateStatus(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	}); err != nil {
		return fmt.Errorf("write the status of Release: %w", err)
	}
	return nil
}

// sendRelease sends a Release and takes what the API server has then.
func sendRelease(of *slipway.Release, request func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	if err != nil {
		return err
	}
	response, err := request(&unstructured.Unstructured{Object: content})
	if err != nil {
		return err
	}
	text, err := response.MarshalJSON()
	if err != nil {
		return err
	}
	*of = slipway.Release{}
	return json.Unmarshal(text, of)
}

// sameJSON compares two values as the API server would have them.
func sameJSON(a, b any) bool {
	one, err := json.Marshal(a)
	other, otherErr := json.Marshal(b)
	return err == nil && otherErr == nil && slices.Equal(one, other)
}
