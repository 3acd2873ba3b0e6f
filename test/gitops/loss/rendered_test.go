package loss

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// generatedInputs is how many folders and charts are rendered.
const generatedInputs = 1500

// The rule, from the text of files to the cluster: every object that Helm's
// library finds in them is applied as it is written, or an error names it, or its
// file, while the Application is not Synced and nothing is pruned. A file that has
// only what is no manifest is left out with a warning.
func TestNothingOfFilesIsLost(t *testing.T) {
	quiet(t)
	renderer := must.Get(render.New(render.Options{Workers: 1}))(t)
	t.Cleanup(func() { _ = renderer.Close() })
	seen := map[string]int{}
	for seed := range uint64(generatedInputs) {
		files, isChart := generateInput(seed)
		want := read(t, files, isChart)
		source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "app"}
		result, err := renderer.Render(t.Context(), render.Request{App: "shop", Namespace: "shop",
			Inputs: []render.Input{{Source: source, Store: tree.NewMemory(files), Path: "app"}}})
		if err != nil {
			seen["refused by the renderer"]++
			want.checkError(t, err.Error())
		} else {
			want.checkLeftOut(t, result.Warnings)
			seen[want.checkSync(t, result)]++
		}
		if t.Failed() {
			t.Fatalf("seed %d, a chart %t:\n%q\nwrong files %v, error %v", seed, isChart, files, want.wrong, err)
		}
	}
	t.Logf("%v", seen)
	for _, outcome := range []string{"refused by the renderer", "Synced", "OutOfSync", "Unknown"} {
		if seen[outcome] < generatedInputs/100 {
			t.Errorf("the inputs are not of all kinds: %v", seen)
		}
	}
}

// checkError: a render fails for a reason, and names the file of it.
func (o *oracle) checkError(t *testing.T, message string) {
	t.Helper()
	if !slices.ContainsFunc(slices.Collect(maps.Keys(o.wrong)), func(file string) bool { return strings.Contains(message, file) }) {
		t.Errorf("%q names none of the files %v", message, o.wrong)
	}
}

// checkLeftOut: only files without an object are left out, and warnings name them.
func (o *oracle) checkLeftOut(t *testing.T, warnings []string) {
	t.Helper()
	for file := range o.wrong {
		if o.ofFile[file] > 0 || !strings.Contains(strings.Join(warnings, "\n"), file) {
			t.Errorf("%s is wrong, has %d objects and is rendered with warnings %q", file, o.ofFile[file], warnings)
		}
	}
}

// checkSync syncs a result to a cluster that has what an earlier revision left, and
// returns the sync status.
func (o *oracle) checkSync(t *testing.T, result *render.Result) string {
	t.Helper()
	m := newModel(t)
	state := m.sync(result.Objects)
	documents := o.documents()
	m.check(documents, state)
	if worst(documents) != applied {
		return string(state)
	}
	live := identities(slices.Collect(maps.Values(m.objects)))
	if found := identities(o.objects); !maps.Equal(live, found) {
		t.Errorf("live are %v, and the files have %v", live, found)
	}
	return string(state)
}

// identities are the objects by kind and name, with the number that distinguishes them
// from others of that name. The last one of a name counts.
func identities(objects []*unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, object := range objects {
		name := cmp.Or(object.GetGenerateName(), object.GetName())
		id, _, _ := unstructured.NestedString(object.Object, "data", "id")
		text, _, _ := unstructured.NestedString(object.Object, "stringData", "id")
		all[object.GetKind()+" "+name] = id + text
	}
	return all
}

// renderedCases are generated inputs for the real agent: the first ones without a
// wrong file, whose outcome is known object by object.
func renderedCases(t *testing.T) (cases []lossCase) {
	t.Helper()
	for seed := uint64(0); len(cases) < endToEnd; seed++ {
		files, isChart := generateInput(seed)
		want := read(t, files, isChart)
		if len(want.wrong) == 0 && want.keeps() > 1 {
			cases = append(cases, lossCase{name: fmt.Sprintf("rendered-%d", seed), files: files, want: want.documents()})
		}
	}
	return cases
}

// keeps is how many objects are no hooks: without one a sync would prune
// everything, which the agent does not do by itself.
func (o *oracle) keeps() (count int) {
	for _, object := range o.objects {
		if !strings.Contains(fmt.Sprint(object.GetAnnotations()), "hook") {
			count++
		}
	}
	return count
}
