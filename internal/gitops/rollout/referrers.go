package rollout

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// workloadKey names a workload in the namespace of its Rollout.
type workloadKey struct {
	resource  schema.GroupVersionResource
	namespace string
	name      string
}

// referrers has the workloads of the Rollouts that refer to one. Kinds of workloads are
// watched from the first reference on: most clusters have none.
type referrers struct {
	// watch starts to watch a kind; it is called once for each.
	watch func(schema.GroupVersionResource)

	mu      sync.Mutex
	of      map[types.NamespacedName]workloadKey
	watched map[schema.GroupVersionResource]bool
}

// newReferrers makes an empty index.
func newReferrers(watch func(schema.GroupVersionResource)) *referrers {
	return &referrers{watch: watch, of: map[types.NamespacedName]workloadKey{}, watched: map[schema.GroupVersionResource]bool{}}
}

// put records the reference of a Rollout.
func (r *referrers) put(object *unstructured.Unstructured) {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	var ref v1alpha1.ObjectRef
	content, found, _ := unstructured.NestedMap(object.Object, "spec", "workloadRef") // what is no map is refused by Decode
	if found && decodeJSON(content, &ref) != nil {
		found = false
	}
	kind, err := kindOfWorkload(&ref)
	if !found || err != nil {
		r.remove(name, "")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[name] = workloadKey{resource: kind.resource, namespace: name.Namespace, name: ref.Name}
	if !r.watched[kind.resource] {
		r.watched[kind.resource] = true
		r.watch(kind.resource)
	}
}

// remove forgets a Rollout.
func (r *referrers) remove(name types.NamespacedName, _ types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, name)
}

// to returns the Rollouts that refer to a workload.
func (r *referrers) to(key workloadKey) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []types.NamespacedName
	for name, of := range r.of {
		if of == key {
			found = append(found, name)
		}
	}
	return found
}
