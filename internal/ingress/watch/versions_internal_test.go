package watch

import (
	"maps"
	"testing"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// TestVersions: a version counts when Next has returned everything up to it. Objects
// raise both, lists and bookmarks only how far everything is read.
func TestVersions(t *testing.T) {
	w := &Watcher{queue: newQueue(100), versions: versions{read: map[string]uint64{}, upTo: map[string]uint64{}}}
	m, all := newMirror(t.Context(), w.queue, snapshot.Service), newMirror(t.Context(), w.queue, snapshot.Service)
	for one, namespace := range map[*mirror]string{m: "shop", all: ""} {
		one.listed = func() {}
		w.trackVersions(t.Context(), one, feedName{"services", namespace})
	}
	want := func(what string, read, upTo map[string]uint64) {
		t.Helper()
		gotRead, gotUpTo := w.Versions()
		if !maps.Equal(gotRead, read) || !maps.Equal(gotUpTo, upTo) {
			t.Errorf("%s: read %v up to %v, want %v up to %v", what, gotRead, gotUpTo, read, upTo)
		}
	}
	next := func() { must.Get(w.Next(t.Context()))(t) }
	must.Do(t, m.Replace([]any{service("a", "5"), service("b", "3")}, "9"))
	want("before Next", nil, nil)
	next()
	want("a list", map[string]uint64{"services/shop": 5}, map[string]uint64{"services/shop": 9})
	want("nothing new", nil, nil)
	must.Do(t, m.Update(service("a", "11")))
	next()
	want("an object", map[string]uint64{"services/shop": 11}, map[string]uint64{"services/shop": 9})
	m.UpdateResourceVersion("12")
	m.UpdateResourceVersion("opaque")
	all.UpdateResourceVersion("7")
	next()
	want("bookmarks", map[string]uint64{"services/shop": 11}, map[string]uint64{"services/shop": 12, "services": 7})
	must.Do(t, m.Update(service("a", "11"))) // delivered again after a lost watch
	m.UpdateResourceVersion("10")
	next()
	want("an older version", nil, nil)
}
