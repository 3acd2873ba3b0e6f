package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/must"
)

// decoded is an object of any of the kinds.
type decoded interface {
	Unstructured() (map[string]any, error)
}

// decodeAny reads an object by its kind.
func decodeAny(object map[string]any) (decoded, []refusal.Refusal, error) {
	switch object["kind"] {
	case v1alpha1.KindAppProject:
		return v1alpha1.DecodeProject(object)
	case v1alpha1.KindApplicationSet:
		return v1alpha1.DecodeSet(object)
	default:
		return v1alpha1.Decode(object)
	}
}

// warningsOf are the parts of an object that were accepted and have no effect.
func warningsOf(object decoded) []refusal.Refusal {
	switch o := object.(type) {
	case *v1alpha1.Application:
		return o.Warnings
	case *v1alpha1.AppProject:
		return o.Warnings
	case *v1alpha1.ApplicationSet:
		return o.Warnings
	}
	return nil
}

// parse reads YAML with the numbers that unstructured objects have.
func parse(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	must.Do(t, yaml.Unmarshal(text, &object))
	return numbers(object).(map[string]any)
}

func numbers(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = numbers(v[name])
		}
	}
	return value
}

// accepted gives the objects that everything is supported of.
func accepted(t testing.TB) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/accepted/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	objects := map[string]map[string]any{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		objects[strings.TrimSuffix(filepath.Base(file), ".yaml")] = parse(t, text)
	}
	return objects
}

// TestRoundTrip: an object whose fields are all supported is the same when it is
// read and written.
func TestRoundTrip(t *testing.T) {
	for name, object := range accepted(t) {
		t.Run(name, func(t *testing.T) {
			read, refused, err := decodeAny(object)
			if err != nil || len(refused) > 0 {
				t.Fatalf("%v, refused: %s", err, refusal.Summary(refused))
			}
			written := must.Get(read.Unstructured())(t)
			if got, want := text(t, written), text(t, object); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// text is an object as YAML, without values that mean none.
func text(t testing.TB, object map[string]any) string {
	t.Helper()
	encoded := must.Get(json.Marshal(object))(t)
	var copied map[string]any
	must.Do(t, json.Unmarshal(encoded, &copied))
	result := must.Get(yaml.Marshal(copied))(t)
	return string(result)
}

// TestEveryFieldIsInAnExample: what TestRoundTrip promises holds for every
// field, because each is in an example.
func TestEveryFieldIsInAnExample(t *testing.T) {
	seen := map[string]bool{}
	for _, object := range accepted(t) {
		read, _, err := decodeAny(object)
		must.Do(t, err)
		note(reflect.ValueOf(read), seen)
	}
	// These mean nothing, are written by Argo CD only, or must not be set.
	exempt := map[string]bool{"PullRequestGitLab.Insecure": true, "PullRequestBitbucketServer.Insecure": true, "PullRequestGitea.Insecure": true,
		"SCMProviderGitLab.Insecure": true, "SCMProviderBitbucketServer.Insecure": true, "SCMProviderGitea.Insecure": true,
		"SyncStrategy.Apply":                      true,
		"ApplicationSetSpec.ApplyNestedSelectors": true, "SyncOperation.Source": true, "SyncOperation.Sources": true,
		"RevisionHistory.Sources": true, "SyncOperationResult.Sources": true, "SyncOperationResult.Revisions": true,
		"ComparedTo.Sources": true, "ComparedTo.IgnoreDifferences": true, "SyncStatus.Revisions": true}
	if len(seen) < 150 {
		t.Errorf("only %d fields were looked at", len(seen))
	}
	for name, used := range seen {
		if !used && !exempt[name] {
			t.Errorf("no example has %s", name)
		}
	}
}

// note marks the fields of our structs that have a value.
func note(value reflect.Value, seen map[string]bool) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			note(value.Elem(), seen)
		}
	case reflect.Slice:
		for i := range value.Len() {
			note(value.Index(i), seen)
		}
	case reflect.Struct:
		if !strings.HasSuffix(value.Type().PkgPath(), "api/argo/v1alpha1") {
			return
		}
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if field.Anonymous {
				note(value.Field(i), seen)
				continue
			}
			if field.Tag.Get("refused") != "" || field.Tag.Get("json") == "-" {
				continue
			}
			name := value.Type().Name() + "." + field.Name
			seen[name] = seen[name] || !value.Field(i).IsZero()
			note(value.Field(i), seen)
		}
	}
}

// TestRefused compares what is refused or ignored with the archives in
// testdata/refused.
func TestRefused(t *testing.T) {
	archives.Each(t, "testdata/refused/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		if len(archive.Files) != 2 {
			t.Fatalf("it has %d files", len(archive.Files))
		}
		object, refused, err := decodeAny(parse(t, archive.Files[0].Data))
		must.Do(t, err)
		var got strings.Builder
		for _, r := range refused {
			fmt.Fprintf(&got, "%s %s\n", r.Reason, r)
		}
		for _, warning := range warningsOf(object) {
			fmt.Fprintf(&got, "Warning %s\n", warning)
		}
		archives.Check(t, &archive.Files[1], got.String())
	})
}

// TestNoObject: what is not of the kind is an error.
func TestNoObject(t *testing.T) {
	for name, object := range map[string]map[string]any{
		"nothing":           nil,
		"another kind":      {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": map[string]any{}},
		"another group":     {"apiVersion": "app.k8s.io/v1beta1", "kind": "Application", "metadata": map[string]any{}},
		"no metadata":       {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"},
		"metadata is text":  {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": "a"},
		"name is a number":  {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": int64(1)}},
		"labels are a list": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"labels": []any{"a"}}},
		"not JSON":          {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": make(chan int)}},
	} {
		if application, _, err := v1alpha1.Decode(object); err == nil {
			t.Errorf("%s is the Application %+v", name, application)
		}
	}
}

// TestSpecIsMissing: an object without a spec, or with another thing there, is
// refused and not a panic.
func TestSpecIsMissing(t *testing.T) {
	for _, spec := range []any{nil, "text", []any{}, int64(1)} {
		object := map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "a"}, "spec": spec}
		_, refused, err := v1alpha1.Decode(object)
		if err != nil || len(refused) == 0 || refused[0].Field != "spec" {
			t.Errorf("%v: %v, %v", spec, refused, err)
		}
	}
}

// TestStatusIsReadWithPatience: what another program wrote into a status never
// stops an Application.
func TestStatusIsReadWithPatience(t *testing.T) {
	object := accepted(t)["guestbook"]
	object["status"] = map[string]any{
		"sync":           map[string]any{"status": "Synced", "future": true},
		"health":         "Healthy",
		"reconciledAt":   "yesterday",
		"sourceHydrator": map[string]any{"currentOperation": map[string]any{}},
		"history":        []any{nil, map[string]any{"id": "three"}, map[string]any{"id": int64(4), "source": map[string]any{"helm": map[string]any{"passCredentials": true}}}},
	}
	application, refused, err := v1alpha1.Decode(object)
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v, %v", refused, err)
	}
	if application.Status.Sync.Status != v1alpha1.SyncSynced || len(application.Status.History) != 2 || application.Status.History[1].ID != 4 || application.Status.ReconciledAt != nil {
		t.Errorf("%+v", application.Status)
	}
}

// TestManyRefusals: the number of refusals for one object is bounded.
func TestManyRefusals(t *testing.T) {
	object := accepted(t)["guestbook"]
	for i := range 5000 {
		object["spec"].(map[string]any)[fmt.Sprintf("x%04d", i)] = true
	}
	_, refused, err := v1alpha1.Decode(object)
	if err != nil || len(refused) != 21 || !strings.Contains(refused[20].Message, "the first of 980") {
		t.Errorf("%d refusals, the last: %v, %v", len(refused), refused[len(refused)-1], err)
	}
}

// TestManyWarnings: the warnings of one object are bounded, and the last counts
// those that are not listed.
func TestManyWarnings(t *testing.T) {
	object := accepted(t)["applicationset"]
	for i := range 50 {
		object["spec"].(map[string]any)[fmt.Sprintf("x%04d", i)] = true
	}
	set, refused, err := v1alpha1.DecodeSet(object)
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v, refused: %s", err, refusal.Summary(refused))
	}
	if len(set.Warnings) != 21 || set.Warnings[20].Reason != v1alpha1.Ignored || !strings.Contains(set.Warnings[20].Message, "the first of 30 ") {
		t.Errorf("%d warnings, the last: %v", len(set.Warnings), set.Warnings[len(set.Warnings)-1])
	}
	written := must.Get(set.Unstructured())(t)
	if strings.Contains(text(t, written), "arnings") {
		t.Error("warnings are written into the object")
	}
}

// TestIgnoredPartsAreRemoved: the parts that have no effect are not in what was
// decoded, so that nothing acts on them.
func TestIgnoredPartsAreRemoved(t *testing.T) {
	archive := must.Get(txtar.ParseFile("testdata/refused/ignored.txtar"))(t)
	app, _, err := v1alpha1.Decode(parse(t, archive.Files[0].Data))
	must.Do(t, err)
	if sources := app.Spec.Sources; app.Spec.Source != nil || sources[0].Directory != nil || sources[1].Directory != nil || sources[2].Directory == nil {
		t.Errorf("source %v, sources %+v", app.Spec.Source, sources)
	}
}

// TestFreeFormIsACopy: the content of a free-form field is not shared with the
// object that it was read from.
func TestFreeFormIsACopy(t *testing.T) {
	object := accepted(t)["helm-guestbook"]
	application, _, err := v1alpha1.Decode(object)
	must.Do(t, err)
	application.Spec.Source.Helm.ValuesObject["ingress"].(map[string]any)["hosts"] = nil
	values := object["spec"].(map[string]any)["source"].(map[string]any)["helm"].(map[string]any)["valuesObject"].(map[string]any)
	if values["ingress"].(map[string]any)["hosts"] == nil {
		t.Error("a change of what was decoded changed the object")
	}
	deep := any("end")
	for range 100 {
		deep = []any{deep}
	}
	values["deep"] = deep
	if _, refused, err := v1alpha1.Decode(object); err != nil || len(refused) != 1 {
		t.Errorf("values that are too deep: %v, %v", refused, err)
	}
}

// FuzzDecode: whatever an object is, nothing panics, and what is accepted can be
// written and read again.
func FuzzDecode(f *testing.F) {
	for _, object := range accepted(f) {
		seed := must.Get(json.Marshal(object))(f)
		f.Add(seed)
	}
	f.Add([]byte(`{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{},"spec":{"source":{"helm":{"valuesObject":[1e400]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var object map[string]any
		if json.Unmarshal(data, &object) != nil {
			return
		}
		for _, whole := range []map[string]any{object, numbers(object).(map[string]any)} {
			read, refused, err := decodeAny(whole)
			if err != nil {
				continue
			}
			written := must.Get(read.Unstructured())(t)
			again, refusedAgain, err := decodeAny(written)
			if err != nil || len(refused) == 0 && len(refusedAgain) > 0 {
				t.Fatalf("%v; what was written is refused: %v", err, refusedAgain)
			}
			rewritten, err := again.Unstructured()
			if err != nil || len(refused) == 0 && !reflect.DeepEqual(written, rewritten) {
				t.Fatalf("%v; written\n%+v\nand again\n%+v", err, written, rewritten)
			}
		}
	})
}
