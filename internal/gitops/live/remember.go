package live

import (
	"container/list"
	"time"
	"unique"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// interner gives equal texts the same memory.
type interner struct{}

func (interner) one(text string) string { return unique.Make(text).Value() }

const (
	// goneFor is how long an object that is gone is remembered: longer than a
	// sync needs to look at the Job that its time to live has deleted.
	goneFor = 5 * time.Minute
	// goneMost bounds how many are.
	goneMost = 512
)

// graveyard has the last states of objects that are gone.
type graveyard struct {
	of map[tracking.Key]*list.Element
	// order has the oldest in front.
	order list.List
}

type grave struct {
	*Object
	at time.Time
}

func (g *graveyard) bury(object *Object, now time.Time) {
	if g.of == nil {
		g.of = map[tracking.Key]*list.Element{}
	}
	g.forget(object.Key)
	g.of[object.Key] = g.order.PushBack(grave{object, now})
	for first := g.order.Front(); first != nil; first = g.order.Front() {
		oldest := first.Value.(grave)
		if g.order.Len() <= goneMost && now.Sub(oldest.at) < goneFor {
			return
		}
		g.forget(oldest.Key)
	}
}

func (g *graveyard) forget(key tracking.Key) {
	if element := g.of[key]; element != nil {
		g.order.Remove(element)
		delete(g.of, key)
	}
}

func (g *graveyard) find(key tracking.Key, now time.Time) *Object {
	element := g.of[key]
	if element == nil {
		return nil
	}
	if found := element.Value.(grave); now.Sub(found.at) < goneFor {
		return found.Object
	}
	return nil
}
