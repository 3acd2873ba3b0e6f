package watch

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// name is a namespace and a name.
type name struct{ namespace, own string }

// mirrored is what a mirror remembers of an object.
type mirrored struct {
	version string
	// facts are those of a node. The Snapshot has the same ones.
	facts *snapshot.NodeFacts
}

// mirror is the store of a reflector that hands everything on. It remembers what
// it has handed on, so that a list that comes later becomes the changes since.
// Only its reflector calls it.
//
// It never fails: the only thing that keeps an event out of the queue is the end
// of the context, and a reflector that is told of a failure then leaves its
// stream behind.
type mirror struct {
	ctx   context.Context
	queue *queue
	kind  snapshot.Kind
	known map[name]mirrored
	// listed is called when all objects have been handed on.
	listed func()
}

func newMirror(ctx context.Context, queue *queue, kind snapshot.Kind) *mirror {
	return &mirror{ctx: ctx, queue: queue, kind: kind, known: map[name]mirrored{}}
}

// Transformer makes the reflector trim objects as they come in, so that a long
// list is never in memory as a whole in its full size.
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
func (m *mirror) Replace(objects []any, _ string) error {
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
	return nil
}

// Resync is never asked for.
func (*mirror) Resync() error { return nil }

// clear hands on that all objects are gone.
func (m *mirror) clear() {
	for at := range m.known {
		m.remove(at)
	}
}

func (m *mirror) put(object any) {
	at, version := identify(object)
	before, known := m.known[at]
	if known && before.version == version {
		return
	}
	trim(object)
	now := mirrored{version: version}
	shaped := shape(m.kind, object)
	if facts, isNode := shaped.(*snapshot.NodeFacts); isNode {
		now.facts = facts
		if known && reflect.DeepEqual(before.facts, facts) {
			m.known[at] = mirrored{version: version, facts: before.facts}
			return // a heartbeat
		}
	}
	if m.queue.push(m.ctx, item{event: Event{Put: shaped, At: time.Now()}}) == nil {
		m.known[at] = now
	}
}

func (m *mirror) remove(at name) {
	if _, known := m.known[at]; !known {
		return
	}
	gone := snapshot.Ref{Kind: m.kind, Namespace: at.namespace, Name: at.own}
	if m.queue.push(m.ctx, item{event: Event{Delete: gone, At: time.Now()}}) == nil {
		delete(m.known, at)
	}
}

// identify gives the name and the resource version of an object. A reflector
// hands on objects of its kind only, and all kinds have metadata.
func identify(object any) (name, string) {
	metadata := object.(metav1.Object)
	return name{metadata.GetNamespace(), metadata.GetName()}, metadata.GetResourceVersion()
}
