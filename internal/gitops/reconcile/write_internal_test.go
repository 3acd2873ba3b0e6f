package reconcile

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
)

func sample() *v1alpha1.Application {
	app := &v1alpha1.Application{}
	app.Name, app.Namespace, app.ResourceVersion, app.UID = "web", "apps", "7", "u"
	app.Status.Sync.Status = v1alpha1.SyncSynced
	app.Status.Health.Status = v1alpha1.Healthy
	return app
}

// What is not ours alone is written for the version that was read; and what
// another client wrote meanwhile is not removed.
func TestPatch(t *testing.T) {
	sync := &v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{Revision: "aaa"}}
	other := &v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{Revision: "bbb"}}
	running := func(phase v1alpha1.OperationPhase) *v1alpha1.OperationState {
		return &v1alpha1.OperationState{Phase: phase, StartedAt: *wholeSecond(noon()), Operation: *sync}
	}
	tests := []struct {
		name   string
		change func(app *v1alpha1.Application, want *applicationUpdate)
		patch  string
	}{
		{"nothing", func(*v1alpha1.Application, *applicationUpdate) {}, `null`},
		{"the time alone is nothing", func(_ *v1alpha1.Application, want *applicationUpdate) { want.status.ReconciledAt = wholeSecond(noon()) }, `null`},
		{"health", func(_ *v1alpha1.Application, want *applicationUpdate) { want.status.Health.Status = v1alpha1.Degraded },
			`{"metadata":{"uid":"u"},"status":{"health":{"status":"Degraded"},"reconciledAt":"2026-03-01T12:00:00Z"}}`},
		{"a field that goes", func(app *v1alpha1.Application, _ *applicationUpdate) { app.Status.SourceType = v1alpha1.SourceHelm },
			`{"metadata":{"uid":"u"},"status":{"reconciledAt":"2026-03-01T12:00:00Z","sourceType":null}}`},
		{"a request is taken up", func(app *v1alpha1.Application, want *applicationUpdate) { app.Operation, want.consumed = sync, sync },
			`{"metadata":{"resourceVersion":"7","uid":"u"},"operation":null}`},
		{"another request is there by now", func(app *v1alpha1.Application, want *applicationUpdate) { app.Operation, want.consumed = other, sync }, `null`},
		{"a refresh is done", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Annotations, want.refresh = map[string]string{refreshAnnotation: "hard"}, "hard"
		}, `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":null},"resourceVersion":"7","uid":"u"}}`},
		{"another refresh is asked for by now", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Annotations, want.refresh = map[string]string{refreshAnnotation: "hard"}, "normal"
		}, `null`},
		{"finalizers of others stay", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Finalizers, want.finalizers = []string{"a", finalizer}, []string{finalizer}
		}, `{"metadata":{"finalizers":["a"],"resourceVersion":"7","uid":"u"}}`},
		{"an operation that was terminated meanwhile stays so", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Status.OperationState = running(v1alpha1.OperationTerminating)
			want.status.OperationState = running(v1alpha1.OperationRunning)
		}, `null`},
		{"an operation that ended nevertheless has ended", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Status.OperationState = running(v1alpha1.OperationTerminating)
			want.status.OperationState = running(v1alpha1.OperationSucceeded)
		}, `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"operationState":{"phase":"Succeeded"},"reconciledAt":"2026-03-01T12:00:00Z"}}`},
		{"an operation that ended after the run began is compared", func(_ *v1alpha1.Application, want *applicationUpdate) {
			want.status.OperationState = running(v1alpha1.OperationSucceeded)
			want.status.OperationState.FinishedAt = wholeSecond(noon().Add(time.Second))
		}, `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"operationState":{"finishedAt":"2026-03-01T12:00:01Z","operation":{"sync":{"revision":"aaa"}},"phase":"Succeeded","startedAt":"2026-03-01T12:00:00Z"},"reconciledAt":"2026-03-01T12:00:01Z"}}`},
		{"an operation that ended before is compared now", func(app *v1alpha1.Application, want *applicationUpdate) {
			app.Status.OperationState = running(v1alpha1.OperationSucceeded)
			app.Status.OperationState.FinishedAt = wholeSecond(noon().Add(-time.Second))
			want.status.OperationState = app.Status.OperationState
			want.status.Health.Status = v1alpha1.Degraded
		}, `{"metadata":{"uid":"u"},"status":{"health":{"status":"Degraded"},"reconciledAt":"2026-03-01T12:00:00Z"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app, want := sample(), &applicationUpdate{status: sample().Status}
			test.change(app, want)
			patch := must.Get(wholePatch(app, want, noon()))(t)
			text := must.Get(json.Marshal(patch))(t)
			if string(text) != test.patch {
				t.Errorf("the patch is\n%s, want\n%s", text, test.patch)
			}
		})
	}
}

// merged is a document after a JSON merge patch, as in RFC 7386.
func merged(document, patch map[string]any) map[string]any {
	result := maps.Clone(document)
	for name, value := range patch {
		group, isGroup := value.(map[string]any)
		below, _ := result[name].(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isGroup && below == nil:
			result[name] = merged(map[string]any{}, group)
		case isGroup:
			result[name] = merged(below, group)
		default:
			result[name] = value
		}
	}
	return result
}

// A difference leads from one document to the other, and is empty only if they
// are the same.
func FuzzDifference(f *testing.F) {
	f.Add(`{"a": {"b": 1, "c": [1]}, "d": "x"}`, `{"a": {"b": 2}, "e": {"f": {}}}`)
	f.Add(`{"a": {"b": {}}}`, `{"a": "text"}`)
	f.Add(`{"a": "text"}`, `{"a": {"b": {}}}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var before, after map[string]any
		if json.Unmarshal([]byte(first), &before) != nil || json.Unmarshal([]byte(second), &after) != nil || hasNull(before) || hasNull(after) {
			t.Skip() // no status has null
		}
		patch := difference(before, after)
		got := merged(before, patch)
		if len(got)+len(after) > 0 && !reflect.DeepEqual(got, after) {
			t.Errorf("%s with the patch %v is %v, want %s", first, patch, got, second)
		}
		if len(patch) == 0 && len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
			t.Errorf("%s and %s are not the same, and there is no patch", first, second)
		}
	})
}

func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return false // lists are replaced as a whole
	case map[string]any:
		for _, one := range value {
			if hasNull(one) {
				return true
			}
		}
	}
	return false
}

// What another client wrote, and we learn by the response to our own write, is
// looked at: its event will be taken for an echo.
func TestAnswerWithNewsIsLookedAt(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1alpha1.Application)
		unseen bool
		want   int
	}{
		{"our own write", func(app *v1alpha1.Application) { app.Status.Health.Status = v1alpha1.Degraded }, true, 0},
		{"another spec", func(app *v1alpha1.Application) { app.Spec.Project = "team" }, true, 1},
		{"a request", func(app *v1alpha1.Application) { app.Operation = &v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{}} }, true, 1},
		{"a request that we removed, for one version only", func(app *v1alpha1.Application) { app.Annotations = nil }, false, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			controller := &Controller{store: newStore("apps", nil), queue: newTestQueue(t)}
			before := sample()
			before.APIVersion, before.Kind, before.Annotations = v1alpha1.APIVersion, v1alpha1.KindApplication, map[string]string{"a": "b"}
			controller.store.put(before, nil)
			p := &reconcileRun{Controller: controller, input: input{id: identityOf(before)}, app: before}
			after := *before
			after.ResourceVersion = "8"
			test.change(&after)
			content := must.Get(after.Unstructured())(t)
			must.Do(t, p.takeResponse(&unstructured.Unstructured{Object: content}, test.unseen))
			if got := controller.queue.length(); got != test.want {
				t.Errorf("%d items wait, want %d", got, test.want)
			}
			if _, known, _ := controller.store.get(p.id); known.ResourceVersion != "8" || p.app.ResourceVersion != "8" {
				t.Error("the answer is not what is known now")
			}
		})
	}
}
