package loss

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

var (
	shop    = tracking.App{Namespace: "argocd", Name: "shop"}
	tracker = tracking.Tracker{ControlNamespace: "argocd"}
)

// allowAll is a project that permits everything.
type allowAll struct{}

func (allowAll) Allows(tracking.Key, *unstructured.Unstructured, string) *refusal.Refusal { return nil }
func (allowAll) TakesOver(tracking.Key) *refusal.Refusal                                  { return nil }

// scopeOf is a cluster without the kinds of unheard.example.
func scopeOf(kind schema.GroupKind) plan.Scope {
	if kind.Group == "unheard.example" {
		return plan.UnknownScope
	}
	return plan.NamespaceScope
}

// decode reads a document as the renderer gives it: the elements of lists apart.
func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return []*unstructured.Unstructured{{Object: content}}
}

// model is a cluster in memory that accepts everything but what a real API
// server rejects.
type model struct {
	t       *testing.T
	objects map[tracking.Key]*unstructured.Unstructured
	pruned  []tracking.Key
	// named is every text that a person is shown.
	named []string
}

// newModel is a cluster with what an earlier revision left: objects of names that
// may be there again, and one that has left Git.
func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{t: t, objects: map[tracking.Key]*unstructured.Unstructured{}}
	var before []*unstructured.Unstructured
	for _, name := range []string{"object-0", "object-1", "object-2", "object-3", "object-11", "twice", "left"} {
		before = append(before, decode(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}")...)
	}
	if state := m.sync(before); state != plan.Synced {
		t.Fatalf("the start is %s", state)
	}
	m.named = nil
	return m
}

// accepts reports whether an API server would accept an object.
func (m *model) accepts(object *unstructured.Unstructured) bool {
	_, wrong, _ := unstructured.NestedMap(object.Object, "data", "value")
	_, typo := object.Object["date"]
	return !wrong && !typo && object.GetNamespace() != "does-not-exist" && !strings.Contains(object.GetName(), "_")
}

// sync plans and carries out a sync with prune, and returns the sync state
// afterwards.
func (m *model) sync(rendered []*unstructured.Unstructured) plan.SyncState {
	m.t.Helper()
	set := plan.Prepare(plan.Source{App: shop, Tracker: tracker, Namespace: "shop", Scope: scopeOf, Objects: rendered})
	made := must.Get(plan.Build(set, plan.Input{Live: m.objects, Gate: allowAll{}, Options: plan.Options{AllowPrune: true, AllowEmpty: true}}))(m.t)
	state := plan.NewState(nil)
	for range 1000 {
		decision := made.Next(state)
		if decision.Phase != plan.Running {
			m.named = append(m.named, decision.Message)
			break
		}
		for _, step := range decision.Clear {
			delete(m.objects, step.Key)
			state.Gone(step)
		}
		for _, step := range decision.Run {
			m.do(state, step)
		}
	}
	for _, refused := range made.Refusals {
		m.named = append(m.named, refused.Error())
	}
	for _, step := range made.Steps() {
		if mark := state.Mark(step.StepID); mark.Progress == plan.Failed {
			m.named = append(m.named, step.Key.String()+": "+mark.Reason())
		}
	}
	_, overall := plan.CompareAll(plan.Comparison{Set: set, Live: m.objects,
		Predict: func(desired, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return desired.DeepCopy(), nil
		}})
	return overall
}

func (m *model) do(state *plan.State, step *plan.Step) {
	switch {
	case step.Action == plan.Remove:
		m.pruned = append(m.pruned, step.Key)
		delete(m.objects, step.Key)
		state.Deleted(step.StepID, "")
	case m.accepts(step.Object):
		m.objects[step.Key] = step.Object
		state.Applied(step.StepID, "")
		state.Observe(step, plan.Healthy, "")
	default:
		state.Refused(step.StepID, "not accepted")
	}
}

// isLive reports whether an object of that name is in the cluster. A name that
// ends with a dash is a generateName.
func (m *model) isLive(name string) bool {
	for key := range m.objects {
		if key.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(key.Name, name) {
			return true
		}
	}
	return false
}

// check compares the state after a sync with what has to become of documents.
func (m *model) check(documents []document, state plan.SyncState) {
	m.t.Helper()
	for _, one := range documents {
		// What a sync does not begin with cannot be tried.
		tried := worst(documents) < blocking || one.fate >= blocking
		if tried && one.fate != applied && !isNamed(m.named, one) {
			m.t.Errorf("no error names %q", one.text)
		}
		if one.fate == applied && worst(documents) < blocking && !m.isLive(one.name) {
			m.t.Errorf("%q is not applied", one.text)
		}
	}
	want := map[fate]plan.SyncState{applied: plan.Synced, refused: plan.UnknownSync, rejected: plan.OutOfSync, blocking: plan.OutOfSync}[worst(documents)]
	if state != want {
		m.t.Errorf("it is %s, want %s: %q", state, want, m.named)
	}
	if gone := len(m.pruned) > 0; gone != (want == plan.Synced) {
		m.t.Errorf("it is %s, and pruned are %v", state, m.pruned)
	}
}

// isNamed reports whether an error names a document.
func isNamed(texts []string, of document) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return of.name != "" && strings.Contains(text, of.name) || of.name == "" && strings.Contains(text, "(no name)")
	})
}

// The rule, for any input: every rendered object is applied, or named in an error
// and the Application is not Synced, and then nothing is pruned.
func TestNothingIsLost(t *testing.T) {
	fates := map[fate]int{}
	for seed := range uint64(3000) {
		documents := generate(seed)
		m := newModel(t)
		var rendered []*unstructured.Unstructured
		for _, one := range documents {
			rendered = append(rendered, decode(t, one.text)...)
		}
		state := m.sync(rendered)
		fates[worst(documents)]++
		m.check(documents, state)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s\nerrors %q", seed, manifests(documents), m.named)
		}
	}
	for _, kind := range []fate{applied, rejected, blocking, refused} {
		if fates[kind] < 100 {
			t.Errorf("the inputs are not of all kinds: %v", fates)
		}
	}
}
