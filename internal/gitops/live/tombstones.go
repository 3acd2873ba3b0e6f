package live

import (
	"container/list"
	"time"

	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// tombstoneTTL is how long the last state of a deleted object is kept:
	// longer than a sync needs to read the Job that its time to live has
	// deleted.
	tombstoneTTL = 5 * time.Minute
	// maxTombstones bounds how many are kept; the oldest go first.
	maxTombstones = 512
)

// tombstones has the last states of deleted objects. The cache's lock guards
// it.
type tombstones struct {
	of map[tracking.Key]*list.Element
	// order has the oldest in front.
	order list.List
}

// tombstone is the last state of an object, and when it was deleted.
type tombstone struct {
	*Object
	at time.Time
}

// add keeps the last state of an object, and drops what is too old or too many.
func (g *tombstones) add(object *Object, now time.Time) {
	if g.of == nil {
		g.of = map[tracking.Key]*list.Element{}
	}
	g.forget(object.Key)
	g.of[object.Key] = g.order.PushBack(tombstone{object, now})
	for first := g.order.Front(); first != nil; first = g.order.Front() {
		oldest := first.Value.(tombstone)
		if g.order.Len() <= maxTombstones && now.Sub(oldest.at) < tombstoneTTL {
			return
		}
		g.forget(oldest.Key)
	}
}

// forget drops an object that was created again.
func (g *tombstones) forget(key tracking.Key) {
	if element := g.of[key]; element != nil {
		g.order.Remove(element)
		delete(g.of, key)
	}
}

// find returns the last state of an object, or nil.
func (g *tombstones) find(key tracking.Key, now time.Time) *Object {
	element := g.of[key]
	if element == nil {
		return nil
	}
	if found := element.Value.(tombstone); now.Sub(found.at) < tombstoneTTL {
		return found.Object
	}
	return nil
}
