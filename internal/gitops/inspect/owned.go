package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// ownedKinds are the kinds that workloads own.
func ownedKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Version: "v1", Resource: "pods"},
	}
}

// ownedObjects are the owned objects of some namespaces.
type ownedObjects struct {
	health *health.Rules
	// by indexes objects by their owner.
	by map[tracking.Key][]ownership
	// pods are all Pods, and bodies all objects by UID.
	pods   map[tracking.Key]*unstructured.Unstructured
	bodies map[types.UID]*unstructured.Unstructured
}

// ownership is an object and the UID of its owner.
type ownership struct {
	object *unstructured.Unstructured
	owner  types.UID
}

// owned reads the owned objects in the Application's namespaces. Kinds that may
// not be listed are left out and reported to skipped. It lists whole
// namespaces, because the API server cannot select by owner.
func (i *Inspector) owned(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*ownedObjects, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	owned := &ownedObjects{
		health: i.Health, by: map[tracking.Key][]ownership{}, pods: map[tracking.Key]*unstructured.Unstructured{},
		bodies: map[types.UID]*unstructured.Unstructured{},
	}
	for _, namespace := range namespacesOf(app) {
		for _, kind := range ownedKinds() {
			err := i.eachOf(ctx, kind, namespace, owned.add)
			if apierrors.IsForbidden(err) {
				skipped(kind.Resource, namespace)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s in the namespace %s: %w", kind.Resource, namespace, err)
			}
		}
	}
	return owned, nil
}

// namespacesOf returns the namespaces of an Application's objects.
func namespacesOf(app *Application) []string {
	var namespaces []string
	for _, resource := range app.Status.Resources {
		if resource.Namespace != "" && !slices.Contains(namespaces, resource.Namespace) {
			namespaces = append(namespaces, resource.Namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

// eachOf lists a kind page by page.
func (i *Inspector) eachOf(ctx context.Context, kind schema.GroupVersionResource, namespace string, visit func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: listPage}
	for {
		page, err := i.Dynamic.Resource(kind).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for n := range page.Items {
			visit(&page.Items[n])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// add indexes an object. The key of an owner has the namespace of the object:
// owners are in the same one, or cluster-scoped and then not shown.
func (o *ownedObjects) add(object *unstructured.Unstructured) {
	// Managed fields are half of what a list holds in memory.
	object.SetManagedFields(nil) // they are half of what a list holds
	if key := tracking.KeyOf(object); key.Group == "" && key.Kind == "Pod" {
		o.pods[key] = object
	}
	o.bodies[object.GetUID()] = object
	for _, owner := range object.GetOwnerReferences() {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		key := tracking.Key{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: owner.Name}
		o.by[key] = append(o.by[key], ownership{object, owner.UID})
	}
}

// infoOf returns short facts about an owned object. The names of the facts are
// part of the API and stay stable.
func infoOf(object *unstructured.Unstructured) map[string]string {
	info := map[string]string{}
	switch object.GetKind() {
	case "Pod":
		podInfo(object, info)
	case "ReplicaSet":
		wanted, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas")
		info["ready"] = fmt.Sprintf("%d/%d", ready, wanted)
		if revision := object.GetAnnotations()["deployment.kubernetes.io/revision"]; revision != "" {
			info["revision"] = revision
		}
	case "Job":
		done, _, _ := unstructured.NestedInt64(object.Object, "status", "succeeded")
		info["succeeded"] = strconv.FormatInt(done, 10)
	}
	return info
}

// podInfo adds ready containers, restarts and images of a Pod. The total is
// that of the spec: a Pod that has not started has no container statuses.
func podInfo(object *unstructured.Unstructured, info map[string]string) {
	var images []string
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
	for _, each := range containers {
		container, _ := each.(map[string]any)
		if image, _ := container["image"].(string); image != "" && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	info["images"] = strings.Join(images, ", ")
	ready, restarts := 0, int64(0)
	statuses, _, _ := unstructured.NestedSlice(object.Object, "status", "containerStatuses")
	for _, each := range statuses {
		status, _ := each.(map[string]any)
		if is, _ := status["ready"].(bool); is {
			ready++
		}
		count, _ := status["restartCount"].(int64)
		restarts += count
	}
	info["ready"] = fmt.Sprintf("%d/%d", ready, len(containers))
	info["restarts"] = strconv.FormatInt(restarts, 10)
	if node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName"); node != "" {
		info["node"] = node
	}
}
