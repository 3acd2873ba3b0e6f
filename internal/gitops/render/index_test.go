package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
	"slipway.dev/slipway/internal/must"
)

// indexOf is an index of many versions, as Helm writes it.
func indexOf(versions int) []byte {
	var index bytes.Buffer
	index.WriteString("entries:\n  web:\n")
	for i := range versions {
		fmt.Fprintf(&index, "  - description: %s\n    urls:\n    - web-%d.tgz\n    version: 1.0.%d\n", strings.Repeat("text ", 20), i, i)
	}
	return index.Bytes()
}

func compactIn(t *testing.T, r *render.Renderer, index []byte) ([]byte, error) {
	t.Helper()
	var compact bytes.Buffer
	err := r.CompactIndex(t.Context(), "team", bytes.NewReader(index), 1<<30, func(part []byte) error {
		_, err := compact.Write(part)
		return err
	})
	return compact.Bytes(), err
}

// What a worker makes of an index is what this process would, also over several
// chunks and twice through the file.
func TestCompactIndex(t *testing.T) {
	r := newRenderer(t, render.Options{})
	for name, index := range map[string][]byte{
		"small":   indexOf(1),
		"chunks":  indexOf(20000),
		"JSON":    []byte(`{"entries":{"web":[{"version":"1.0.0"}]}}`),
		"unusual": []byte("x: " + strings.Repeat("x", 600<<10) + "\nentries: {web: [{version: 1.0.0}]}\n"),
	} {
		want := must.Get(helmindex.Compact(bytes.NewReader(index), 1<<30))(t)
		got, err := compactIn(t, r, index)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	// What is no index is an error that may go away, and the worker is of use.
	_, err := compactIn(t, r, []byte("<html>sign in</html>"))
	if isRefusal(err) || err == nil || !strings.Contains(err.Error(), "no index of a Helm repository") {
		t.Errorf("no index: %v", err)
	}
	if result, err := r.Render(t.Context(), small()); err != nil || len(result.Objects) != 1 {
		t.Errorf("a render afterwards: %v", err)
	}
}

func isRefusal(err error) bool {
	var refused *refusal.Refusal
	return errors.As(err, &refused)
}

// An index beyond a limit is refused with the option to change, and costs one
// worker at most.
func TestCompactIndexLimits(t *testing.T) {
	whole := []byte("entries: {web: [" + strings.Repeat("{version: 1.0.0},\n", 200000) + "]}")
	for name, tt := range map[string]struct {
		options render.Options
		index   []byte
		limit   int64
		want    string
	}{
		"memory": {render.Options{MemoryBytes: 64 << 20}, whole, 1 << 30, "64 MiB of memory and was stopped: make the index smaller, or raise render.memoryLimit of the agent"},
		"time":   {render.Options{Timeout: 100 * time.Millisecond}, indexOf(200000), 1 << 30, "longer than 100ms and was stopped: make the index smaller, or raise render.timeout of the agent"},
		"output": {render.Options{}, indexOf(20000), 1000, "sources.indexLimit"},
	} {
		r := newRenderer(t, tt.options)
		err := r.CompactIndex(t.Context(), "team", bytes.NewReader(tt.index), tt.limit, func([]byte) error { return nil })
		if !isRefusal(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := compactIn(t, r, indexOf(1)); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// brokenFile fails after some bytes.
type brokenFile struct{ *bytes.Reader }

func (f brokenFile) ReadAt(into []byte, offset int64) (int, error) {
	if offset > 0 {
		return 0, io.ErrClosedPipe
	}
	return f.Reader.ReadAt(into, offset)
}

// Errors of the disk are no properties of the index.
func TestCompactIndexDisk(t *testing.T) {
	r := newRenderer(t, render.Options{})
	err := r.CompactIndex(t.Context(), "team", brokenFile{bytes.NewReader(indexOf(20000))}, 1<<30, func([]byte) error { return nil })
	if !errors.Is(err, io.ErrClosedPipe) || isRefusal(err) {
		t.Errorf("reading: %v", err)
	}
	err = r.CompactIndex(t.Context(), "team", bytes.NewReader(indexOf(1)), 1<<30, func([]byte) error { return io.ErrShortWrite })
	if !errors.Is(err, io.ErrShortWrite) || isRefusal(err) {
		t.Errorf("writing: %v", err)
	}
}
