package cache

import (
	"runtime"
	"testing"
)

func TestWeakSweepsDeadEntries(t *testing.T) {
	var w Weak[int, [64]byte]
	kept := w.GetOrCreate(-1, func() *[64]byte { return new([64]byte) })
	for i := range 1000 {
		w.Put(i, new([64]byte))
	}
	runtime.GC()
	for i := range 1000 {
		w.Put(1000+i, new([64]byte))
	}
	if got := len(w.entries); got > 1500 {
		t.Errorf("%d entries, though half of them are dead", got)
	}
	runtime.KeepAlive(kept)
}
