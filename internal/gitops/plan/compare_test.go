package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

const liveDeployment = `{"apiVersion":"apps/v1","kind":"Deployment",
	"metadata":{"name":"web","namespace":"shop","resourceVersion":"5","generation":2,"annotations":{"example.com/note":"x"}},
	"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"a:1"},{"name":"side","image":"s:1"}]}}}}`

// changed gives a prediction: the live object with other values under paths.
func changed(paths ...string) plan.Predict {
	return func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		after := live.DeepCopy()
		after.SetResourceVersion("6")
		after.SetGeneration(3)
		for _, path := range paths {
			switch path {
			case "replicas":
				after.Object["spec"].(map[string]any)["replicas"] = int64(1)
			case "side":
				containers := after.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
				containers[1].(map[string]any)["image"] = "s:2"
			case "note":
				after.SetAnnotations(map[string]string{"example.com/note": "y"})
			}
		}
		return after, nil
	}
}

// deletePath understands paths of names, such as .spec.replicas.
type deletePath struct{}

func (deletePath) Check(expression string) error {
	if !strings.HasPrefix(expression, ".") {
		return errors.New("it is not a path")
	}
	return nil
}

func (deletePath) Delete(expression string, document map[string]any) (map[string]any, error) {
	if strings.Contains(expression, "broken") {
		delete(document, "spec")
		return nil, errors.New("cannot iterate over null")
	}
	unstructured.RemoveNestedField(document, strings.Split(expression[1:], ".")...)
	return document, nil
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes []string
		rule    v1alpha1.ResourceIgnoreDifferences
		want    plan.SyncState
	}{
		{"the same", nil, v1alpha1.ResourceIgnoreDifferences{}, plan.Synced},
		{"another", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{}, plan.OutOfSync},
		{"pointer", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}, plan.Synced},
		{"pointer of a list", []string{"side"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment",
			JSONPointers: []string{"/spec/template/spec/containers/1/image"}}, plan.Synced},
		{"pointer to something else", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/spec/paused", "/spec/template/x/y", "/spec/replicas/0"}}, plan.OutOfSync},
		{"only one of two", []string{"replicas", "note"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}, plan.OutOfSync},
		{"group and kind are patterns", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "*", Kind: "Deploy*", JSONPointers: []string{"/spec/replicas"}}, plan.Synced},
		{"another group", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}, plan.OutOfSync},
		{"this name", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "*", Name: "web", Namespace: "shop", JSONPointers: []string{"/spec/replicas"}}, plan.Synced},
		{"another name", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "*", Name: "api", JSONPointers: []string{"/spec/replicas"}}, plan.OutOfSync},
		{"another namespace", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "*", Namespace: "test", JSONPointers: []string{"/spec/replicas"}}, plan.OutOfSync},
		{"path", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JQPathExpressions: []string{".spec.replicas"}}, plan.Synced},
		{"path that fails hides nothing", []string{"replicas"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JQPathExpressions: []string{".broken"}}, plan.OutOfSync},
		{"path that fails invents nothing", nil, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JQPathExpressions: []string{".broken"}}, plan.Synced},
		{"escaped", []string{"note"}, v1alpha1.ResourceIgnoreDifferences{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/metadata/annotations/example.com~1note"}}, plan.Synced},
	} {
		t.Run(test.name, func(t *testing.T) {
			ignore := must.Get(plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{test.rule}, deletePath{}))(t)
			live := decode(t, liveDeployment)
			got, err := plan.Compare(live, live, ignore, changed(test.changes...))
			if got != test.want || err != nil {
				t.Errorf("it is %s, %v, want %s", got, err, test.want)
			}
			if !reflect.DeepEqual(live, decode(t, liveDeployment)) {
				t.Error("the live object was changed")
			}
		})
	}
}

func TestCompareAbsent(t *testing.T) {
	live := decode(t, liveDeployment)
	if got, _ := plan.Compare(live, nil, nil, nil); got != plan.Absent {
		t.Errorf("what is not there is %s", got)
	}
	if got, _ := plan.Compare(nil, live, nil, nil); got != plan.Extra {
		t.Errorf("what is not desired is %s", got)
	}
	broken := func(_, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return nil, errors.New("denied by webhook")
	}
	if got, err := plan.Compare(live, live, nil, broken); got != plan.OutOfSync || err == nil || !strings.Contains(err.Error(), "denied by webhook") {
		t.Errorf("what cannot be predicted is %s, %v", got, err)
	}
}

func TestNewIgnore(t *testing.T) {
	for name, test := range map[string]struct {
		rule v1alpha1.ResourceIgnoreDifferences
		says string
	}{
		"pointer":       {v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"spec"}}, "ignoreDifferences[0].jsonPointers[0]: it does not begin with /"},
		"everything":    {v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/a", ""}}, "jsonPointers[1]"},
		"escape":        {v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/a~2"}}, "~0"},
		"long pointer":  {v1alpha1.ResourceIgnoreDifferences{JSONPointers: []string{"/" + strings.Repeat("a", 2000)}}, "characters"},
		"group":         {v1alpha1.ResourceIgnoreDifferences{Group: "{a"}, "group"},
		"path":          {v1alpha1.ResourceIgnoreDifferences{JQPathExpressions: []string{"spec"}}, "jqPathExpressions[0]: it is not a path"},
		"two, all told": {v1alpha1.ResourceIgnoreDifferences{Kind: "[", JSONPointers: []string{"x"}}, "jsonPointers[0]"},
	} {
		_, err := plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{test.rule}, deletePath{})
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if _, err := plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{{JQPathExpressions: []string{"."}}}, nil); err == nil {
		t.Error("paths are taken without an evaluator")
	}
}

// What a manager owns is taken from both sides, and nothing else.
func TestManagedFields(t *testing.T) {
	for _, test := range []struct{ name, fields, before, after string }{
		{"a field", `{"f:spec":{"f:replicas":{}}}`, `{"replicas":3,"paused":true}`, `{"paused":true}`},
		{"a map that it made and others use", `{"f:spec":{"f:m":{".":{},"f:a":{}}}}`, `{"m":{"a":1,"b":2}}`, `{"m":{"b":2}}`},
		{"a map that it made alone", `{"f:spec":{"f:m":{".":{},"f:a":{}}}}`, `{"m":{"a":1}}`, `{}`},
		{"a map that it did not make", `{"f:spec":{"f:m":{"f:a":{}}}}`, `{"m":{"a":1}}`, `{"m":{}}`},
		{"a whole map", `{"f:spec":{"f:m":{}}}`, `{"m":{"a":1,"b":2},"n":1}`, `{"n":1}`},
		{"an element by its key", `{"f:spec":{"f:l":{"k:{\"name\":\"a\"}":{"f:image":{}}}}}`,
			`{"l":[{"name":"a","image":"x","tty":true},{"name":"b","image":"y"}]}`, `{"l":[{"name":"a","tty":true},{"name":"b","image":"y"}]}`},
		{"an element that it made", `{"f:spec":{"f:l":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{}}}}}`,
			`{"l":[{"name":"a","image":"x"},{"name":"b"}]}`, `{"l":[{"name":"b"}]}`},
		{"an element that others use too", `{"f:spec":{"f:l":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{}}}}}`,
			`{"l":[{"name":"a","image":"x","tty":true}]}`, `{"l":[{"name":"a","tty":true}]}`},
		{"an element by two keys, one a number", `{"f:spec":{"f:l":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{}}}}`,
			`{"l":[{"port":80,"protocol":"TCP"},{"port":80,"protocol":"UDP"}]}`, `{"l":[{"port":80,"protocol":"UDP"}]}`},
		{"an element by its value", `{"f:spec":{"f:l":{"v:\"a\"":{}}}}`, `{"l":["a","b"]}`, `{"l":["b"]}`},
		{"an element by its place", `{"f:spec":{"f:l":{"i:1":{}}}}`, `{"l":["a","b"]}`, `{"l":["a"]}`},
		{"what is not there", `{"f:spec":{"f:x":{"f:y":{}},"f:replicas":{"f:z":{}}},"f:status":{}}`, `{"replicas":3}`, `{"replicas":3}`},
		{"what is not a set", `{"f:spec":[]}`, `{"replicas":3}`, `{"replicas":3}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := decode(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","managedFields":[
				{"manager":"hpa","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s},
				{"manager":"other","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":%s}`, test.fields, test.before))
			other := decode(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":%s}`, test.before))
			ignore := must.Get(plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{{Kind: "A", ManagedFieldsManagers: []string{"hpa", "none"}}}, nil))(t)
			ignore.Strip(live, other)
			for side, object := range map[string]*unstructured.Unstructured{"live": live, "other": other} {
				got := must.Get(json.Marshal(object.Object["spec"]))(t)
				if want := canonical(t, test.after); string(got) != want {
					t.Errorf("the %s one is %s, want %s", side, got, want)
				}
			}
		})
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	var value any
	must.Do(t, json.Unmarshal([]byte(text), &value))
	written := must.Get(json.Marshal(value))(t)
	return string(written)
}

// Argo CD: extra objects make an application OutOfSync, unless they have
// IgnoreExtraneous. Hooks and skipped objects do not count.
func TestCompareAll(t *testing.T) {
	same := func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return live.DeepCopy(), nil
	}
	for _, test := range []struct {
		name, desired, live string
		want                string
		overall             plan.SyncState
	}{
		{"all there", "ConfigMap a", "ConfigMap a", "ConfigMap shop/a Synced", plan.Synced},
		{"missing", "ConfigMap a", "", "ConfigMap shop/a Missing", plan.OutOfSync},
		{"extra", "ConfigMap a", "ConfigMap a;ConfigMap b", "ConfigMap shop/a Synced, ConfigMap shop/b Extra prune", plan.OutOfSync},
		{"extra, not counted", "ConfigMap a", "ConfigMap a;ConfigMap b compare=IgnoreExtraneous",
			"ConfigMap shop/a Synced, ConfigMap shop/b Extra prune hidden", plan.Synced},
		{"of others", "ConfigMap a", "ConfigMap a;ConfigMap b owner=other;ConfigMap c owner=nobody", "ConfigMap shop/a Synced", plan.Synced},
		{"hooks", "ConfigMap a;Job.batch h hook=PreSync;ConfigMap s hook=Skip", "ConfigMap a;Job.batch old hook=PostSync",
			"ConfigMap shop/a Synced", plan.Synced},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			for line := range strings.SplitSeq(test.desired, ";") {
				w.source.Objects = append(w.source.Objects, object(t, line, false))
			}
			for line := range strings.SplitSeq(test.live, ";") {
				if line != "" {
					made := object(t, line, true)
					w.input.Live[tracking.KeyOf(made)] = made
				}
			}
			all, overall := plan.CompareAll(plan.Comparison{Set: plan.Prepare(w.source), Live: w.input.Live, Predict: same})
			var texts []string
			for _, status := range all {
				text := status.Key.String() + " " + string(status.State)
				if status.Prune {
					text += " prune"
				}
				if status.Hidden {
					text += " hidden"
				}
				texts = append(texts, text)
			}
			if got := strings.Join(texts, ", "); got != test.want || overall != test.overall {
				t.Errorf("it is %s: %s, want %s: %s", overall, got, test.overall, test.want)
			}
		})
	}
}

// While a rendered object is refused nothing is Synced and nothing is to be
// pruned: what is live may be that very object.
func TestCompareRefused(t *testing.T) {
	w := newWorld()
	w.source.Objects = []*unstructured.Unstructured{object(t, "ConfigMap a", false), object(t, "ConfigMap b wave=x", false)}
	for _, line := range []string{"ConfigMap a", "ConfigMap b", "ConfigMap c compare=IgnoreExtraneous"} {
		made := object(t, line, true)
		w.input.Live[tracking.KeyOf(made)] = made
	}
	all, overall := plan.CompareAll(plan.Comparison{Set: plan.Prepare(w.source), Live: w.input.Live, Predict: changed()})
	if overall != plan.UnknownSync || len(all) != 3 {
		t.Errorf("it is %s with %+v", overall, all)
	}
	for _, status := range all {
		if want := map[string]plan.SyncState{"a": plan.Synced, "b": plan.UnknownSync, "c": plan.UnknownSync}[status.Key.Name]; status.State != want || status.Prune {
			t.Errorf("%s is %s, prune %t; want %s", status.Key, status.State, status.Prune, want)
		}
	}
	w.input.Options.AllowPrune = true
	made := w.build(t)
	if decision := made.Next(plan.NewState(nil)); !made.Blocked || decision.Phase != plan.Failed || len(decision.Run) > 0 {
		t.Errorf("a sync is %+v", decision)
	}
	w.source.Objects = w.source.Objects[1:]
	if _, overall := plan.CompareAll(plan.Comparison{Set: plan.Prepare(w.source), Predict: changed()}); overall != plan.UnknownSync {
		t.Errorf("with the refused object alone it is %s", overall)
	}
}

// An object that Argo CD applied and that lacks only our label is Synced where
// no sync would add it by itself, and is marked as unlabelled.
func TestCompareUnlabelled(t *testing.T) {
	apply := func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		after := live.DeepCopy()
		labels := after.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, desired.GetLabels())
		if len(labels) > 0 {
			after.SetLabels(labels)
		}
		after.SetAnnotations(desired.GetAnnotations())
		return after, nil
	}
	for _, test := range []struct {
		name, owner string
		labels      map[string]string
		optional    bool
		want        plan.SyncState
		unlabelled  bool
	}{
		{"labelled", "", nil, true, plan.Synced, false},
		{"unlabelled", "argo", nil, true, plan.Synced, true},
		{"unlabelled, to be synced", "argo", nil, false, plan.OutOfSync, true},
		{"another label missing", "argo", map[string]string{"app": "web"}, true, plan.OutOfSync, true},
		{"of nobody", "nobody", nil, true, plan.OutOfSync, false},
		{"of another", "other", nil, true, plan.OutOfSync, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			desired := object(t, "ConfigMap a", false)
			desired.SetLabels(test.labels)
			w.source.Objects = []*unstructured.Unstructured{desired}
			line := "ConfigMap a"
			if test.owner != "" {
				line += " owner=" + test.owner
			}
			made := object(t, line, true)
			w.input.Live[tracking.KeyOf(made)] = made
			set := plan.Prepare(w.source)
			all, overall := plan.CompareAll(plan.Comparison{Set: set, Live: w.input.Live, Predict: apply, LabelOptional: test.optional})
			if overall != test.want || all[0].Unlabelled != test.unlabelled {
				t.Errorf("it is %s, unlabelled %t; want %s, %t", overall, all[0].Unlabelled, test.want, test.unlabelled)
			}
			if !tracker.Stamped(set.Objects[0].Object, shop) {
				t.Error("the desired object lost its label")
			}
		})
	}
}

// Whatever rules and managed fields have, stripping does not panic, and the same
// two objects are the same afterwards.
func FuzzStrip(f *testing.F) {
	f.Add("/spec/replicas", []byte(`{"f:spec":{"f:l":{"k:{\"name\":\"a\"}":{".":{}}}}}`), []byte(`{"l":[{"name":"a"}]}`))
	f.Add("/spec/l/0", []byte(`{"f:spec":{"f:l":{"v:1":{},"i:0":{}}}}`), []byte(`{"l":[1,2]}`))
	f.Add("/~0~1//", []byte(`{".":{}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, pointer string, fields, spec []byte) {
		ignore, err := plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{{Kind: "A", JSONPointers: []string{pointer}, ManagedFieldsManagers: []string{"m"}}}, nil)
		var value, owned any
		if err != nil || json.Unmarshal(spec, &value) != nil || json.Unmarshal(fields, &owned) != nil {
			return
		}
		live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "A", "spec": value, "metadata": map[string]any{
			"name": "a", "managedFields": []any{map[string]any{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": owned}},
		}}}
		other := live.DeepCopy()
		ignore.Strip(live, other)
		if !reflect.DeepEqual(live, other) {
			t.Errorf("%q and %s make %v and %v of the same object", pointer, fields, live.Object, other.Object)
		}
	})
}
