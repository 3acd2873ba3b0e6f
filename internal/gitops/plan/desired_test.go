package plan_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

func decode(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON([]byte(text)); err != nil {
		// Objects without a kind are what some tests are about.
		must.Do(t, json.Unmarshal([]byte(text), &made.Object))
	}
	return made
}

func prepare(t testing.TB, texts ...string) *plan.Set {
	t.Helper()
	w := newWorld()
	for _, text := range texts {
		w.source.Objects = append(w.source.Objects, decode(t, text))
	}
	return plan.Prepare(w.source)
}

func keys(set *plan.Set) string {
	var texts []string
	for _, desired := range set.Objects {
		texts = append(texts, desired.Key.String())
	}
	return strings.Join(texts, ", ")
}

func TestLists(t *testing.T) {
	const inner = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`
	set := prepare(t,
		`{"apiVersion":"v1","kind":"List","items":[
			{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}},
			{"apiVersion":"v1","kind":"List","items":[`+inner+`]}]}`,
		`{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"c","namespace":"other"}}]}`,
		`{"apiVersion":"example.com/v1","kind":"Basket","metadata":{"name":"d"},"items":[{"name":"apple"}]}`,
		`{"apiVersion":"v1","kind":"List","items":[]}`,
	)
	if want := "ConfigMap shop/a, ConfigMap shop/b, Secret other/c, Basket.example.com shop/d"; keys(set) != want || len(set.Refusals) > 0 {
		t.Errorf("objects are %s, want %s; refusals %v", keys(set), want, set.Refusals)
	}
	set = prepare(t, `{"apiVersion":"v1","kind":"List","items":["text"]}`,
		strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 9)+inner+strings.Repeat(`]}`, 9))
	if len(set.Objects) != 0 || len(set.Refusals) != 2 {
		t.Errorf("objects are %s, refusals %v", keys(set), set.Refusals)
	}
}

func TestPrepareRefuses(t *testing.T) {
	for name, test := range map[string]struct{ object, says string }{
		"kind":          {`{"apiVersion":"v1","metadata":{"name":"a"}}`, "it has no kind"},
		"apiVersion":    {`{"apiVersion":"a/b/c","kind":"A","metadata":{"name":"a"}}`, `apiVersion "a/b/c" cannot be read`},
		"name":          {`{"apiVersion":"v1","kind":"A"}`, "metadata.name: it has no name"},
		"metadata":      {`{"apiVersion":"v1","kind":"A","metadata":"a"}`, "metadata: it is not a map"},
		"no version":    {`{"kind":"A","metadata":{"name":"a"}}`, "apiVersion: it has no apiVersion"},
		"null name":     {`{"apiVersion":"v1","kind":"A","metadata":{"name":null}}`, "it has no name"},
		"null metadata": {`{"apiVersion":"v1","kind":"A","metadata":null}`, "it has no name"},
		"number":        {`{"apiVersion":"v1","kind":"A","metadata":{"name":7}}`, "metadata.name: it is not text"},
		"namespace":     {`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":7}}`, "metadata.namespace: it is not text"},
		"label list":    {`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","labels":["x"]}}`, "metadata.labels: it is not a map"},
		"items":         {`{"apiVersion":"v1","kind":"List","items":{}}`, "it has no name"},
		"generateName":  {`{"apiVersion":"v1","kind":"A","metadata":{"generateName":"a-"}}`, "only a hook"},
		"annotations":   {`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","annotations":{"x":1}}}`, "metadata.annotations[x]: the value is not text"},
		"labels":        {`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","labels":{"x":true}}}`, "metadata.labels"},
		"wave":          {`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","annotations":{"argocd.argoproj.io/sync-wave":"99999999999"}}}`, "whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			set := prepare(t, test.object)
			if len(set.Refusals) != 1 || len(set.Objects) != 0 {
				t.Fatalf("objects are %s, refusals %v", keys(set), set.Refusals)
			}
			if got := set.Refusals[0].Error(); set.Refusals[0].Reason != refusal.Invalid || !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q", got, test.says)
			}
		})
	}
}

// Null in metadata is as if it were not there, and a label or annotation that is
// null is empty text, as kubectl sends it. Lists without elements are empty.
func TestPrepareTakesNull(t *testing.T) {
	for name, test := range map[string]struct{ object, labels, annotations string }{
		"maps":        {`"annotations":null,"labels":null`, "", ""},
		"values":      {`"annotations":{"a":null,"b":"1"},"labels":{"c":null}`, "c=", "a=,b=1"},
		"fields":      {`"finalizers":null,"ownerReferences":null,"creationTimestamp":null,"namespace":null,"generateName":null`, "", ""},
		"hook, wave":  {`"annotations":{"argocd.argoproj.io/hook":null,"argocd.argoproj.io/sync-wave":null,"helm.sh/hook":null}`, "", "argocd.argoproj.io/hook=,argocd.argoproj.io/sync-wave=,helm.sh/hook="},
		"one of each": {`"annotations":null,"labels":{"app":"web"}`, "app=web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := prepare(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",`+test.object+`}}`)
			if len(set.Refusals) > 0 || keys(set) != "ConfigMap shop/a" || set.Objects[0].Hook != nil || set.Objects[0].Wave != 0 {
				t.Fatalf("objects are %s, refusals %v", keys(set), set.Refusals)
			}
			object := set.Objects[0].Object
			if !tracker.Stamped(object, shop) {
				t.Errorf("%v is not marked", object.Object["metadata"])
			}
			if got := pairs(object.GetLabels(), tracking.Label); got != test.labels {
				t.Errorf("the labels are %q, want %q", got, test.labels)
			}
			if got := pairs(object.GetAnnotations(), tracking.Annotation); got != test.annotations {
				t.Errorf("the annotations are %q, want %q", got, test.annotations)
			}
			for field, value := range object.Object["metadata"].(map[string]any) {
				if value == nil {
					t.Errorf("metadata.%s is still null", field)
				}
			}
		})
	}
	set := prepare(t, `{"apiVersion":"v1","kind":"List","items":null}`, `{"apiVersion":"v1","kind":"List"}`, `{"apiVersion":"v1","kind":"ConfigMapList","items":null}`)
	if len(set.Objects)+len(set.Refusals) > 0 {
		t.Errorf("of empty lists there are %s, refusals %v", keys(set), set.Refusals)
	}
	set = prepare(t, `{"apiVersion":"example.com/v1","kind":"AllowList","metadata":{"name":"a"}}`, `{"apiVersion":"v2","kind":"List","metadata":{"name":"a"}}`)
	if got := keys(set); got != "AllowList.example.com shop/a, List shop/a" {
		t.Errorf("kinds that are called list are %s, refusals %v", got, set.Refusals)
	}
}

// pairs is a map as text, without one key.
func pairs(texts map[string]string, but string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if key != but {
			all = append(all, key+"="+texts[key])
		}
	}
	return strings.Join(all, ",")
}

// What was rendered is shared with a cache, and must stay as it is.
func TestPrepareChangesNothing(t *testing.T) {
	w := newWorld()
	w.source.Objects = []*unstructured.Unstructured{
		object(t, "ConfigMap web", false), object(t, "ClusterRole shop/reader", false),
		decode(t, `{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"c"}}]}`),
		object(t, "Job.batch once- generate hook=PreSync", false),
		decode(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"null","labels":null,"annotations":{"a":null}}}`),
	}
	var before []*unstructured.Unstructured
	for _, rendered := range w.source.Objects {
		before = append(before, rendered.DeepCopy())
	}
	set := plan.Prepare(w.source)
	if !reflect.DeepEqual(before, w.source.Objects) {
		t.Error("the rendered objects were changed")
	}
	for _, desired := range set.Objects {
		if !tracker.Stamped(desired.Object, shop) || tracking.KeyOf(desired.Object) != desired.Key {
			t.Errorf("%s is not marked", desired.Key)
		}
	}
}

func TestGeneratedNames(t *testing.T) {
	long := strings.Repeat("long-name-", 8)
	for _, test := range []struct {
		prefix, revision, want string
		began                  time.Time
	}{
		{"a-", "0123456789abcdef", "a-0123456-presync-1700000000", time.Unix(1700000000, 0)},
		{"a-", "0123456789abcdef", "a-0123456-presync", time.Time{}},
		{"a-", "v1.2", "a-v1-2-presync", time.Time{}},
		{"a-", "", "a-presync", time.Time{}},
		{long, "0123456", "long-name-long-name-long-name-long-n-0123456-presync-1700000000", time.Unix(1700000000, 0)},
	} {
		w := newWorld()
		w.source.Revision, w.source.Began = test.revision, test.began
		w.source.Objects = []*unstructured.Unstructured{object(t, "Job.batch "+test.prefix+" generate hook=PreSync", false)}
		set := plan.Prepare(w.source)
		if got := set.Objects[0].Key.Name; got != test.want || len(got) > 63 {
			t.Errorf("%s at %s is %s, want %s", test.prefix, test.revision, got, test.want)
		}
	}
}

func TestSelectors(t *testing.T) {
	for text, says := range map[string]string{
		"apps:Deployment:web": "", ":Service:shop/web": "", "!*:*:*": "", "rbac.authorization.k8s.io:ClusterRole:system:x": "",
		"": "is not", "apps:Deployment": "is not", "apps::web": "is not", "apps:Deployment:": "is not",
		":Service:shop/": "is not", ":Service:a/b/c": "is not",
	} {
		selector, err := plan.ParseSelector(text)
		switch {
		case says == "" && (err != nil || selector.String() != text):
			t.Errorf("%q is %q, %v", text, selector, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%q gives %v", text, err)
		}
	}
}

func TestBuildNeedsAGate(t *testing.T) {
	set := prepare(t)
	if _, err := plan.Build(set, plan.Input{}); err == nil {
		t.Error("a sync is planned without a gate")
	}
	if _, err := plan.Deletion(set, plan.Input{}); err == nil {
		t.Error("a deletion is planned without a gate")
	}
}

// A restart in the middle of a request tries it again, and nothing else.
func TestRestore(t *testing.T) {
	w := newWorld()
	w.source.Objects = []*unstructured.Unstructured{
		object(t, "ConfigMap a", false), object(t, "ConfigMap b", false), object(t, "Job.batch old hook=PreSync", false),
	}
	hook := object(t, "Job.batch old hook=PreSync", true)
	w.input.Live[tracking.KeyOf(hook)] = hook
	p := w.build(t)
	state := plan.NewState(nil)
	for _, step := range p.Steps() {
		if step.Hook != nil {
			state.Clearing(step.StepID)
			continue
		}
		state.Start(step.StepID)
		if step.Key.Name == "a" {
			state.Applied(step.StepID, "created")
		}
	}
	again := plan.NewState(state.Marks())
	if got := showDecision(p.Next(again)); got != "clear PreSync Job.batch shop/old\n= Running\n" {
		t.Errorf("after a restart: %s", got)
	}
	for _, step := range p.Steps() {
		if step.Hook != nil {
			again.Gone(step)
			again.Applied(step.StepID, "")
			again.Observe(step, plan.Healthy, "")
		}
	}
	if got := showDecision(p.Next(again)); got != "run Sync ConfigMap shop/b\n= Running\n" {
		t.Errorf("then: %s", got)
	}
	if mark := again.Mark(plan.StepID{Phase: plan.Sync, Key: parseKey("ConfigMap shop/a")}); mark.Message != "created" {
		t.Errorf("the mark is %+v", mark)
	}
}

// Whatever is rendered, and whatever is live, planning does not panic, and an
// object that cannot be read blocks.
func FuzzPrepare(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"kind":"A"}]}`))
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"a-","annotations":{"argocd.argoproj.io/hook":"PreSync,Skip","argocd.argoproj.io/sync-options":"Prune=false,=,x"}}}`))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"x"},"spec":{"names":[]}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"helm.sh/hook":"test","helm.sh/hook-weight":"-"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		made := &unstructured.Unstructured{}
		if json.Unmarshal(text, &made.Object) != nil {
			return
		}
		w := newWorld()
		w.source.Objects = []*unstructured.Unstructured{made, made}
		w.input.Options.AllowPrune = true
		w.input.Live[tracking.KeyOf(made)] = made
		set := plan.Prepare(w.source)
		p := must.Get(plan.Build(set, w.input))(t)
		if len(set.Refusals) > 0 && !p.Blocked {
			t.Error("what cannot be read does not block")
		}
		p.Next(plan.NewState(nil))
		must.Get(plan.Deletion(set, w.input))(t)
	})
}

func FuzzSelector(f *testing.F) {
	f.Add("apps:Deployment:shop/web")
	f.Add("!*:*:*")
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := plan.ParseSelector(text)
		if err != nil {
			return
		}
		again, err := plan.ParseSelector(selector.String())
		if err != nil || again != selector {
			t.Errorf("%q is %+v, and again %+v, %v", text, selector, again, err)
		}
	})
}

// Argo CD: what is marked for deletion already is not deleted again.
func TestLeaving(t *testing.T) {
	w := newWorld()
	w.input.Options.AllowPrune = true
	w.source.Objects = []*unstructured.Unstructured{object(t, "ConfigMap a", false)}
	for _, line := range []string{"ConfigMap going", "ConfigMap staying"} {
		live := object(t, line, true)
		if strings.Contains(line, "going") {
			live.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-15T10:00:00Z"
		}
		w.input.Live[tracking.KeyOf(live)] = live
	}
	for _, step := range w.build(t).Steps() {
		if step.Leaving() != (step.Key.Name == "going") {
			t.Errorf("%s is leaving: %v", step.StepID, step.Leaving())
		}
	}
}
