package cache_test

import (
	"fmt"
	"runtime"
	"testing"

	"slipway.dev/slipway/internal/cache"
)

// payload is large enough not to share an allocation with other values, which
// would keep it alive.
type payload [64]byte

func TestWeakReturnsTheSameValueWhileItLives(t *testing.T) {
	var w cache.Weak[string, payload]
	if w.Get("a") != nil {
		t.Error("an empty map has a value")
	}
	first := w.GetOrCreate("a", func() *payload { return new(payload) })
	second := w.GetOrCreate("a", func() *payload { t.Error("a live value was replaced"); return new(payload) })
	if first != second || w.Get("a") != first || w.Live()["a"] != first {
		t.Error("one key has two values")
	}
	other := new(payload)
	w.Put("a", other)
	if w.Get("a") != other {
		t.Error("Put did not replace the value")
	}
	w.Delete("a")
	if w.Get("a") != nil || len(w.Live()) != 0 {
		t.Error("Delete left the value")
	}
	runtime.KeepAlive(first)
}

func TestWeakKeepsNothingAlive(t *testing.T) {
	var w cache.Weak[string, payload]
	kept := w.GetOrCreate("kept", func() *payload { return new(payload) })
	for i := range 1000 {
		w.Put(fmt.Sprint(i), new(payload))
	}
	runtime.GC()
	if live := w.Live(); len(live) != 1 || live["kept"] != kept {
		t.Errorf("%d values live, want the one that is referred to", len(live))
	}
	made := false
	w.GetOrCreate("7", func() *payload { made = true; return new(payload) })
	if !made {
		t.Error("a dead value was found")
	}
	runtime.KeepAlive(kept)
}
