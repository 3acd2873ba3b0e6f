package watch

import (
	"context"
	"hash/fnv"
	"reflect"
	"strconv"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// name is a namespace and a name.
type name struct{ namespace, own string }

// versionNumber is a resource version. A mirror keeps one for each object of the cluster,
// and as text it takes twice the memory.
type versionNumber uint64

// numberOf returns the number that a version is. API servers whose versions are no numbers
// are rare; a hash stands for those.
func numberOf(version string) versionNumber {
	if number, err := strconv.ParseUint(version, 10, 63); err == nil {
		return versionNumber(number)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(version)) // never fails
	return versionNumber(hash.Sum64() | 1<<63)
}

// mirror is the store of a reflector that turns everything into events. It keeps
// the versions that it queued, so that a later list becomes the changes since.
// Only its reflector calls it, so it needs no lock.
//
// Its methods never return an error: push fails only at the end of the context,
// and a reflector that gets an error then leaks its stream.
type mirror struct {
	ctx   context.Context
	queue *queue
	kind  snapshot.Kind
	known map[name]versionNumber
	// nodes are the facts of nodes, shared with the Snapshot. Other kinds have none.
	nodes map[name]*snapshot.NodeFacts
	// texts are those of Ingresses and of objects of Gateway API.
	texts interner
	// listed is called when all objects of a list have been queued.
	listed func()
	// read is called when an object of a version is delivered, and advanced when
	// everything up to a version has been queued. Both are nil if versions do not matter.
	read, advanced func(version string)
}

// newMirror returns an empty mirror. The caller sets listed.
func newMirror(ctx context.Context, queue *queue, kind snapshot.Kind) *mirror {
	return &mirror{ctx: ctx, queue: queue, kind: kind, known: map[name]versionNumber{}, nodes: map[name]*snapshot.NodeFacts{}}
}

// Transformer makes the reflector trim objects on arrival, so that a long list is
// never in memory in its full size.
func (*mirror) Transformer() cache.TransformFunc { return trimming }

// Add is called for a new object.
func (m *mirror) Add(object any) error {
	m.put(object)
	return nil
}

// Update is called for a changed object.
func (m *mirror) Update(object any) error {
	m.put(object)
	return nil
}

// Delete is called for an object that is gone.
func (m *mirror) Delete(object any) error {
	at, _ := identify(object)
	m.remove(at)
	return nil
}

// Replace is called with all objects: at first, and when the reflector has
// missed events.
func (m *mirror) Replace(objects []any, version string) error {
	present := make(map[name]struct{}, len(objects))
	for _, object := range objects {
		at, _ := identify(object)
		present[at] = struct{}{}
		m.put(object)
	}
	for at := range m.known {
		if _, still := present[at]; !still {
			m.remove(at)
		}
	}
	m.listed()
	m.UpdateResourceVersion(version)
	return nil
}

// UpdateResourceVersion is called after each event, also after one that put has dropped,
// and for bookmarks.
func (m *mirror) UpdateResourceVersion(version string) {
	if m.advanced != nil {
		m.advanced(version)
	}
}

// Resync is never called: there is no resync period.
func (*mirror) Resync() error { return nil }

// clear queues the deletion of all objects.
func (m *mirror) clear() {
	for at := range m.known {
		m.remove(at)
	}
}

// put queues an object unless its version was queued before. The version is recorded
// only after the push, so that an interrupted one is not taken for delivered.
func (m *mirror) put(object any) {
	at, version := identify(object)
	now := numberOf(version)
	if before, known := m.known[at]; known && before == now {
		return
	}
	trim(object)
	switch o := object.(type) {
	case *unstructured.Unstructured:
		if snapshot.NewGatewayObject(m.kind) != nil {
			m.texts.object(o.Object)
		}
	case *networkingv1.Ingress:
		m.texts.metadata(&o.ObjectMeta)
	}
	shaped := shape(m.kind, object)
	if o, custom := object.(*unstructured.Unstructured); custom {
		m.texts.route(shaped, o.Object)
	}
	if facts, isNode := shaped.(*snapshot.NodeFacts); isNode {
		if reflect.DeepEqual(m.nodes[at], facts) {
			m.known[at] = now
			return // a heartbeat of the kubelet
		}
	}
	queued := item{event: Event{Put: shaped, At: time.Now()}}
	if m.read != nil {
		queued.delivered = func() { m.read(version) }
	}
	if m.queue.push(m.ctx, queued) != nil {
		return
	}
	m.known[at] = now
	if facts, isNode := shaped.(*snapshot.NodeFacts); isNode {
		m.nodes[at] = facts
	}
}

// remove queues the deletion of an object that was queued before.
func (m *mirror) remove(at name) {
	if _, known := m.known[at]; !known {
		return
	}
	gone := snapshot.Ref{Kind: m.kind, Namespace: at.namespace, Name: at.own}
	if m.queue.push(m.ctx, item{event: Event{Delete: gone, At: time.Now()}}) == nil {
		delete(m.known, at)
		delete(m.nodes, at)
	}
}

// identify returns the name and resource version of an object. The assertion holds
// because a reflector stores objects of its kind only, which have metadata.
func identify(object any) (name, string) {
	metadata := object.(metav1.Object)
	return name{metadata.GetNamespace(), metadata.GetName()}, metadata.GetResourceVersion()
}
