package overload

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/must"
)

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name   string
		before Level
		share  float64
		want   Level
	}{
		{"enough", Normal, 0.5, Normal},
		{"collector's goal", Normal, CollectAt, Normal},
		{"between, from below", Normal, 0.915, Normal},
		{"between, from above", Tight, 0.915, Tight},
		{"tight", Normal, 0.93, Tight},
		{"full", Normal, 0.96, Full},
		{"full stays", Full, 0.93, Full},
		{"full ends", Full, 0.9, Normal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := next(c.before, c.share); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestMonitor: the level follows the memory, and each change is reported once.
func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Uint64
		var told []Level
		m := NewMonitor(1000, func(l Level) { told = append(told, l) })
		m.used = used.Load
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		for _, step := range []struct {
			used uint64
			want Level
		}{{100, Normal}, {930, Tight}, {960, Full}, {930, Full}, {100, Normal}} {
			used.Store(step.used)
			<-time.After(2 * Period)
			synctest.Wait()
			if got := m.Level(); got != step.want {
				t.Errorf("at %d: level %d, want %d", step.used, got, step.want)
			}
		}
		cancel()
		<-done
		if len(told) != 3 {
			t.Errorf("told of %v", told)
		}
	})
}

func TestContainerLimit(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             uint64
	}{
		{"version 2", "memory.max", "268435456\n", 256 << 20},
		{"version 1", "memory/memory.limit_in_bytes", "1048576\n", 1 << 20},
		{"none", "memory.max", "max\n", 0},
		{"version 1, none", "memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		{"no file", "other", "1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(c.text), 0o600))
			root := path[:len(path)-len(c.file)]
			if got := containerLimit(root); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestInUse: what the process allocates is seen.
func TestInUse(t *testing.T) {
	debug.FreeOSMemory() // what is free would be used first
	before := inUse()
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = 1
	}
	if grown := inUse() - before; grown < 32<<20 {
		t.Errorf("64 MiB more show as %d bytes", grown)
	}
	_ = block[len(block)/2]
}
