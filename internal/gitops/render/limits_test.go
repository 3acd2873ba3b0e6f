package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

const chartFile = "apiVersion: v2\nname: hostile\nversion: 0.1.0\n"

// chartOf is a chart with one template.
func chartOf(template string) tree.Store {
	return tree.NewMemory(map[string]string{"Chart.yaml": chartFile, "templates/a.yaml": template})
}

func requestFor(store tree.Store) render.Request {
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "."}
	return render.Request{App: "example", Namespace: "default", Inputs: []render.Input{{Source: source, Store: store}}}
}

// small is a request that always works.
func small() render.Request {
	return requestFor(tree.NewMemory(map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}))
}

// breaker is a repository that breaks a limit.
type breaker struct {
	name  string
	store func(t testing.TB) tree.Store
	kind  render.ErrorKind
	words string
}

func breakers() []breaker {
	memory := func(files map[string]string) func(testing.TB) tree.Store {
		return func(testing.TB) tree.Store { return tree.NewMemory(files) }
	}
	template := func(text string) func(testing.TB) tree.Store {
		return func(testing.TB) tree.Store { return chartOf(text) }
	}
	jsonnet := func(text string) func(testing.TB) tree.Store { return memory(map[string]string{"a.jsonnet": text}) }
	return []breaker{
		{"file over the limit", memory(map[string]string{"a.yaml": strings.Repeat("#", 11<<20)}), render.Refused, "a.yaml: it is larger than"},
		{"file of 1 GiB", hugeFile, render.Refused, "huge.yaml: it is larger than"},
		{"files over the limit together", manyFiles, render.Refused, "more than 20971520 bytes"},
		{"range to 1e9", template("{{ range until 1000000000 }}{{ end }}"), render.OutOfMemory, "MiB of memory"},
		{"endless loop", template(`{{ range until 100000 }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}{{ end }}`), render.TooSlow, "longer than"},
		{"repeat of gigabytes", template(`{{ repeat 1000000000 "aaaaaaaa" }}`), render.OutOfMemory, "MiB of memory"},
		{"template that calls itself", template(`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`), render.Failed, ""},
		{"growing variable", template(`{{ $a := "aaaaaaaaaaaaaaaa" }}{{ range until 40 }}{{ $a = print $a $a }}{{ end }}`), render.OutOfMemory, "memory"},
		{"jsonnet that calls itself", jsonnet("local f(x) = f(x + 1) tailstrict; f(1)"), render.Failed, "calls itself without end"},
		{"jsonnet that grows", jsonnet("local f(x) = f(x + x) tailstrict; f('aaaaaaaaaaaaaaaa')"), render.OutOfMemory, "memory"},
		{"long text by aliases", memory(map[string]string{"a.yaml": aliases()}), render.Refused, "aliases that expand"},
		{"more output than allowed", template(`{{ range until 600 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "a{{ . }}"}
data: {text: "{{ repeat 8000 "a" }}"}
{{ end }}`), render.TooLarge, "larger than"},
		{"many tiny values", memory(map[string]string{"a.json": `{"apiVersion": "v1", "kind": "A", "d": [` + strings.Repeat("1,", manifest.MaxValues) + `1]}`}),
			render.TooLarge, "more than 1048576 values"},
		{"deep nesting", memory(map[string]string{"a.yaml": "apiVersion: v1\nkind: A\nmetadata:\n x: " + strings.Repeat("[", 200000)}), render.Failed, "a.yaml"},
	}
}

func hugeFile(t testing.TB) tree.Store {
	root := t.TempDir()
	file := must.Get(os.Create(filepath.Join(root, "huge.yaml")))(t)
	must.Do(t, errors.Join(file.Truncate(1<<30), file.Close()))
	return must.Get(tree.NewFolder(root))(t)
}

func manyFiles(testing.TB) tree.Store {
	text := strings.Repeat("#", 9<<20)
	files := map[string]string{}
	for i := range 8 {
		files[fmt.Sprintf("%d.yaml", i)] = text
	}
	return tree.NewMemory(files)
}

func aliases() string {
	return "apiVersion: v1\nkind: A\na: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
}

// tight is a limit on memory that is soon reached. With the race detector
// everything is larger.
func tight(workers int) render.Options {
	options := render.Options{Workers: workers, Timeout: time.Minute, MemoryBytes: 192 << 20}
	if raceEnabled {
		options.MemoryBytes = 2 << 30
	}
	return options
}

// Each limit that a repository breaks is reported with what to do. It takes no
// memory of the renderer's, and the next render works.
func TestLimits(t *testing.T) {
	renderer := newRenderer(t, tight(1))
	for _, tt := range breakers() {
		t.Run(tt.name, func(t *testing.T) {
			store := tt.store(t)
			before := residentBytes(t)
			request := requestFor(store)
			request.Limits.Files = tree.Limits{FileBytes: 10 << 20, TotalBytes: 20 << 20, Files: 1000, Links: 8}
			request.Limits.OutputBytes = 4 << 20
			if tt.kind == render.TooSlow {
				request.Limits.Timeout = 2 * time.Second
			}
			_, err := renderer.Render(t.Context(), request)
			var failure *render.Error
			if !errors.As(err, &failure) || failure.Kind != tt.kind || !strings.Contains(failure.Message, tt.words) {
				t.Errorf("%.300v, want %s: ...%s...", err, tt.kind, tt.words)
			}
			if grown := residentBytes(t) - before; grown > 64<<20 && !raceEnabled {
				t.Errorf("the renderer grew by %d MiB", grown>>20)
			}
			if result, err := renderer.Render(t.Context(), small()); err != nil || len(result.Objects) != 1 {
				t.Errorf("the next render: %v", err)
			}
		})
	}
}

// residentBytes is the memory of this process.
func residentBytes(t testing.TB) int64 {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/self/status"))(t)
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kilobytes := must.Get(strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(string(rest)), "kB")), 10, 64))(t)
			return kilobytes << 10
		}
	}
	t.Fatal("the kernel does not tell the memory of a process")
	return 0
}

// Renders that die take no other with them: eight at a time, half of them
// hostile.
func TestParallel(t *testing.T) {
	renderer := newRenderer(t, tight(4))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if i%2 == 1 {
				_, err := renderer.Render(t.Context(), requestFor(chartOf(`{{ repeat 1000000000 "aaaaaaaa" }}`)))
				var failure *render.Error
				if !errors.As(err, &failure) || failure.Kind != render.OutOfMemory {
					t.Errorf("hostile: %v", err)
				}
				return
			}
			for range 10 {
				name := fmt.Sprintf("name-%d", i)
				result, err := renderer.Render(t.Context(), requestFor(chartOf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\n")))
				if err != nil {
					t.Errorf("%d: %v", i, err)
				} else if got := result.Objects[0].GetName(); got != name {
					t.Errorf("%d: got the object of another: %s", i, got)
				}
			}
		})
	}
	group.Wait()
}
