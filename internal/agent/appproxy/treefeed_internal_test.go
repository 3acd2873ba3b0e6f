package appproxy

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// TestStir: a tree is read again for what is in it, for what belongs to something in
// it, and for everything that changes while it is read, but not for what is others'.
func TestStir(t *testing.T) {
	pods := inspect.Scope{Namespace: "shop"}
	labelled := inspect.Scope{Namespace: "shop", Selector: tracking.Label + "=shop"}
	settled := map[types.UID]bool{"deployment": true, "replicaset": true}
	for name, c := range map[string]struct {
		inside map[types.UID]bool
		scope  inspect.Scope
		change inspect.Change
		want   bool
	}{
		"an object of the tree":                   {settled, pods, inspect.Change{UID: "replicaset"}, true},
		"a new one that belongs to it":            {settled, pods, inspect.Change{UID: "pod", Owners: []types.UID{"x", "replicaset"}}, true},
		"somebody else's":                         {settled, pods, inspect.Change{UID: "pod", Owners: []types.UID{"other"}}, false},
		"one of nobody":                           {settled, pods, inspect.Change{UID: "pod"}, false},
		"one with the label, not seen before":     {settled, labelled, inspect.Change{UID: "new"}, true},
		"events were missed":                      {settled, pods, inspect.Change{}, true},
		"somebody else's, while the tree is read": {nil, pods, inspect.Change{UID: "pod", Owners: []types.UID{"other"}}, true},
	} {
		feed := newTreeFeed(nil, tracking.App{Name: "shop"}, nil)
		feed.members = c.inside
		for range 3 { // no more than one signal is held, and nobody waits
			feed.onChange(c.scope, c.change)
		}
		if got := len(feed.changed) == 1; got != c.want || feed.stale[c.scope] != c.want {
			t.Errorf("%s: read again %v, stale %v", name, got, feed.stale)
		}
	}
}
