package source_test

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
)

func TestLinksAndSubmodulesAreTold(t *testing.T) {
	_, repository := demo(t)
	repository.Link(t, "apps/link", "../../../etc/passwd")
	repository.Submodule(t, "apps/module")
	store := resolve(t, open(t), repository.URL(), "main").Store
	entries, err := store.List("apps")
	must(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, fmt.Sprintf("%s %s", entry.Name, entry.Kind))
	}
	if want := "a folder, b folder, link link, module submodule"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	// The target is read and not followed.
	if target := read(t, store, "apps/link"); target != "../../../etc/passwd" {
		t.Errorf("the target is %q", target)
	}
	var refused *refusal.Refusal
	if _, err := store.Read("apps/module", 100); !errors.As(err, &refused) || !strings.Contains(err.Error(), "submodule") {
		t.Errorf("reading a submodule: %v", err)
	}
	for _, path := range []string{"apps/link/x", "apps/module/x", "README/x", "nothing", "apps/nothing/x"} {
		if _, err := store.Entry(path); !isMissing(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entry, err := store.Entry("apps/a/one.yaml"); err != nil || entry.Size != 5 || entry.Kind != tree.File || entry.Name != "one.yaml" {
		t.Errorf("entry is %+v, %v", entry, err)
	}
	if _, err := store.Read("apps", 100); !errors.As(err, &refused) {
		t.Errorf("reading a folder: %v", err)
	}
	if _, err := store.List("README"); !errors.As(err, &refused) {
		t.Errorf("listing a file: %v", err)
	}
	if _, err := store.Read("README", 4); !errors.As(err, &refused) {
		t.Errorf("reading more than the limit: %v", err)
	}
}

// peak runs work and gives how much the heap grew at most meanwhile.
func peak(t *testing.T, work func()) uint64 {
	t.Helper()
	runtime.GC()
	before := heap()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	highest := before
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-done:
			tick.Stop()
			return highest - before
		case <-tick.C:
			highest = max(highest, heap())
		}
	}
}

// heap is the bytes of objects, read without stopping the others.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// A file of 96 MB, which is small on the wire.
func TestLargeFile(t *testing.T) {
	const size = 96 << 20
	_, repository := demo(t)
	repository.Large(t, "apps/large.bin", size)
	const allowed = 40 << 20

	var err error
	strict := open(t, func(o *source.Options) { o.Limits.FileBytes = 64 << 20 })
	grown := peak(t, func() { _, err = strict.Resolve(t.Context(), at(repository.URL(), "main"), 0) })
	wantError(t, err, source.Refused, "100663296 bytes")
	if grown > allowed {
		t.Errorf("refusing it needs %d bytes", grown)
	}

	// Where it is allowed, it stays on the disk: the others can be read, it
	// itself is refused by who reads it.
	var got *source.Resolved
	lax := open(t)
	grown = peak(t, func() { got, err = lax.Resolve(t.Context(), at(repository.URL(), "main"), 0) })
	must(t, err)
	if grown > allowed {
		t.Errorf("fetching it needs %d bytes", grown)
	}
	entry, err := got.Store.Entry("apps/large.bin")
	if err != nil || entry.Size != size {
		t.Errorf("entry is %+v, %v", entry, err)
	}
	grown = peak(t, func() { _, err = got.Store.Read("apps/large.bin", 10<<20) })
	var refused *refusal.Refusal
	if !errors.As(err, &refused) || grown > allowed {
		t.Errorf("reading it: %v, %d bytes", err, grown)
	}
	if read(t, got.Store, "README") != "hello" {
		t.Error("another content")
	}
}

func TestLargeFetch(t *testing.T) {
	_, repository := demo(t)
	s := open(t, func(o *source.Options) { o.Limits.FetchBytes = 100 })
	_, err := s.Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Refused, "limit")
	for i := range 20 {
		repository.Branch(t, fmt.Sprint("b", i))
	}
	s = open(t, func(o *source.Options) { o.Limits.Refs = 10 })
	_, err = s.Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Refused, "refs")
}

// A hundred goroutines read one commit while others come and go.
func TestConcurrentReads(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("apps/%03d/deployment.yaml", i)] = strings.Repeat("replicas: 1\n", 50) + fmt.Sprint(i)
	}
	repository := gittest.Serve(t).Repository(t, "demo", files)
	s := open(t)
	store := resolve(t, s, repository.URL(), "main").Store
	var wait sync.WaitGroup
	for worker := range 100 {
		wait.Go(func() {
			for i := range 30 {
				path := fmt.Sprintf("apps/%03d/deployment.yaml", (worker*7+i*11)%300)
				content, err := store.Read(path, 1<<20)
				if err != nil || string(content) != files[path] {
					t.Errorf("%s: %v", path, err)
					return
				}
				content[0] = 'x' // what is given out belongs to the caller
			}
		})
	}
	wait.Go(func() {
		for i := range 30 {
			repository.Commit(t, map[string]string{"README": fmt.Sprint(i)}, "more")
			if _, err := s.Resolve(t.Context(), at(repository.URL(), "main"), 0); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Wait()
}
