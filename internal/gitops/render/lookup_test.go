package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// lookupRequest renders a chart that reads an object twice, and a list.
func lookupRequest(lookup func(render.Lookup) ([]byte, error)) render.Request {
	request := requestFor(tree.NewMemory(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" +
			"  one: {{ dig `data` `key` `none` (lookup `v1` `Secret` `team` `own`) | quote }}\n" +
			"  two: {{ dig `data` `key` `none` (lookup `v1` `Secret` `team` `own`) | quote }}\n" +
			"  list: {{ len (lookup `v1` `Secret` `team` ``) | quote }}\n",
	}))
	request.Lookup = lookup
	return request
}

// An object of the cluster is read once for a render, and the result holds while
// it is the same. Without the right nothing is found, and nothing is requested.
func TestLookup(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	var wanted []render.Lookup
	object := []byte(`{"data": {"key": "value", "large": 12345678901}}`)
	allowed := lookupRequest(func(one render.Lookup) ([]byte, error) {
		wanted = append(wanted, one)
		return object, nil
	})
	for _, tt := range []struct {
		request render.Request
		value   string
	}{{lookupRequest(nil), "none"}, {allowed, "value"}} {
		got := describe(t, must.Get(renderer.Render(t.Context(), tt.request))(t), nil)
		if !strings.Contains(got, fmt.Sprintf("  list: \"0\"\n  one: %[1]s\n  two: %[1]s\n", tt.value)) {
			t.Errorf("rendered\n%s", got)
		}
		if warned := strings.Contains(got, "a list of Secret is empty"); warned != (tt.value == "value") {
			t.Errorf("rendered\n%s", got)
		}
	}
	if want := (render.Lookup{APIVersion: "v1", Kind: "Secret", Namespace: "team", Name: "own"}); len(wanted) != 1 || wanted[0] != want {
		t.Errorf("requested %+v, want %+v once", wanted, want)
	}
	result := must.Get(renderer.Render(t.Context(), allowed))(t)
	if !result.Holds(allowed) || result.Holds(lookupRequest(nil)) {
		t.Error("the result does not depend on the right alone")
	}
	object = []byte(`{"data": {"key": "changed"}}`)
	if result.Holds(allowed) {
		t.Error("the result holds with another object")
	}
	object = nil
	if got := describe(t, must.Get(renderer.Render(t.Context(), allowed))(t), nil); !strings.Contains(got, "one: none") {
		t.Errorf("without the object it is\n%s", got)
	}
}

// An object that cannot be read fails the render, and is tried again. Looking it
// up is bounded.
func TestLookupErrors(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	broken := errors.New("the API server is away")
	request := lookupRequest(func(render.Lookup) ([]byte, error) { return nil, broken })
	_, err := renderer.Render(t.Context(), request)
	failure, ok := errors.AsType[*render.Error](err)
	if !ok || failure.Kind != render.Unavailable || !errors.Is(err, broken) || failure.Holds(request) {
		t.Errorf("the error is %v", err)
	}
	count := 0
	request = requestFor(tree.NewMemory(map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"templates/a.yaml": "{{ range until 5000 }}{{ $_ := lookup `v1` `Secret` `team` (printf `s%d` .) }}{{ end }}",
	}))
	request.Lookup = func(render.Lookup) ([]byte, error) {
		count++
		return nil, nil
	}
	if _, err := renderer.Render(t.Context(), request); err == nil || !strings.Contains(err.Error(), "more than 1000 objects") || count != 1000 {
		t.Errorf("%d objects were read: %v", count, err)
	}
}
