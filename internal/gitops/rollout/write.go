package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubejson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

// Write is one request to the API server: an object to create, a merge patch, a
// deletion, or the eviction of a Pod.
type Write struct {
	Resource schema.GroupVersionResource
	Name     string
	Create   any
	Patch    map[string]any
	Delete   bool
	Evict    bool
}

// The resources that are written.
var (
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	podTemplates = schema.GroupVersionResource{Version: "v1", Resource: "podtemplates"}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	ingresses    = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	httpRoutes   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	rolloutsKind = v1alpha1.RolloutResource()
)

// fieldManager is the manager of our fields.
const fieldManager = "slipway-agent-rollouts"

// write adds a write to the decision.
func (p *pass) write(one Write) { p.decision.Writes = append(p.decision.Writes, one) }

// patchRollout patches the Rollout itself, not its status.
func (p *pass) patchRollout(patch map[string]any) {
	p.write(Write{Resource: rolloutsKind, Name: p.rollout.Name, Patch: patch})
}

// patchReplicaSet patches a ReplicaSet.
func (p *pass) patchReplicaSet(set *appsv1.ReplicaSet, patch map[string]any) {
	p.write(Write{Resource: replicaSets, Name: set.Name, Patch: patch})
}

// writer carries decisions out.
type writer struct{ cluster *kube.Cluster }

// do does the writes of a decision, and writes the status last. A status that is based
// on an old object is a conflict, and the caller repeats the pass.
func (w writer) do(ctx context.Context, read *unstructured.Unstructured, decision Decision) error {
	version := read.GetResourceVersion()
	for _, one := range decision.Writes {
		written, err := w.one(ctx, read.GetNamespace(), one)
		if err != nil {
			return fmt.Errorf("write %s %s: %w", one.Resource.Resource, one.Name, err)
		}
		// A change of the Rollout itself is not a conflict with its status.
		if one.Resource == rolloutsKind {
			version = written.GetResourceVersion()
		}
	}
	if decision.Status != nil {
		if err := w.status(ctx, read, version, decision.Status); err != nil {
			return fmt.Errorf("write the status: %w", err)
		}
	}
	return nil
}

// one does one write. An object that is already gone needs no deletion.
func (w writer) one(ctx context.Context, namespace string, one Write) (*unstructured.Unstructured, error) {
	client := w.cluster.Dynamic.Resource(one.Resource).Namespace(namespace)
	switch {
	case one.Delete:
		err := client.Delete(ctx, one.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return nil, err
	case one.Evict:
		return nil, w.evict(ctx, namespace, one.Name)
	case one.Create != nil:
		content, err := contentOf(one.Create)
		if err != nil {
			return nil, err
		}
		return client.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: fieldManager})
	}
	patch, err := json.Marshal(one.Patch)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, one.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// evict evicts a Pod. One that a PodDisruptionBudget protects is tried again by a later
// pass.
func (w writer) evict(ctx context.Context, namespace, name string) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	err := w.cluster.Client.CoreV1().Pods(namespace).EvictV1(ctx, eviction)
	if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}

// contentOf is the content of an object, with whole numbers as clients expect them.
func contentOf(object any) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	err = kubejson.Unmarshal(text, &content)
	return content, err
}

// status writes what differs in the status.
func (w writer) status(ctx context.Context, read *unstructured.Unstructured, version string, status *v1alpha1.RolloutStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var wanted map[string]any
	if err := json.Unmarshal(text, &wanted); err != nil {
		return err
	}
	live, _, _ := unstructured.NestedMap(read.Object, "status") // no map is no status
	changes := mergePatch(normalized(live), wanted)
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "status": changes})
	if err != nil {
		return err
	}
	client := w.cluster.Dynamic.Resource(rolloutsKind).Namespace(read.GetNamespace())
	_, err = client.Patch(ctx, read.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}

// normalized returns content with numbers as JSON decodes them.
func normalized(content map[string]any) map[string]any {
	var result map[string]any
	if text, err := json.Marshal(content); err == nil {
		_ = json.Unmarshal(text, &result) // what was marshalled can be read
	}
	return result
}

// mergePatch is the merge patch that makes one content of another.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, wanted := range to {
		is, exists := from[name]
		inner, isMap := wanted.(map[string]any)
		before, wasMap := is.(map[string]any)
		switch {
		case exists && reflect.DeepEqual(is, wanted):
		case isMap && wasMap:
			patch[name] = mergePatch(before, inner)
		default:
			patch[name] = wanted
		}
	}
	for name := range from {
		if _, kept := to[name]; !kept {
			patch[name] = nil
		}
	}
	return patch
}
