package reconcile_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// The agent ends at each write of a sync, before or after it takes effect. The next one
// brings the Application to the revision, and the sync is recorded once. One with prune
// has two waves, and is in the status from its start; the others are not.
func TestSyncIsRecordedAfterTheEndOfTheAgent(t *testing.T) {
	for _, tt := range []struct{ takesEffect, prunes bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			w := newWorld(t)
			repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "0"), "web/two.yaml": configMap("two", "0")})
			w.start()
			w.application("web", repository, "web", `{automated: {prune: true}}`)
			w.recorded("web", repository.Head(t), 1)
			for write := 1; ; write++ {
				files := map[string]string{"web/one.yaml": configMap("one", fmt.Sprint(write)), "web/two.yaml": configMap("two", fmt.Sprint(write))}
				if tt.prunes {
					files[fmt.Sprintf("web/round-%d.yaml", write)] = configMap(fmt.Sprint("round-", write), "1")
				}
				if tt.prunes && write > 1 {
					files[fmt.Sprintf("web/round-%d.yaml", write-1)] = gittest.Gone
				}
				commit, isEnded := w.endAt(write, tt.takesEffect, func() string { return repository.Commit(t, files, "a round") })
				w.recorded("web", commit, write+1)
				if t.Failed() || !isEnded {
					t.Logf("a sync has %d writes", write-1)
					return
				}
			}
		})
	}
}

// endAt pushes a commit and ends the engine at a write of what follows, with effect or
// without. It reports whether there was such a write. The engine runs again afterwards.
func (w *world) endAt(write int, takesEffect bool, push func() string) (commit string, isEnded bool) {
	w.t.Helper()
	var writes atomic.Int64
	reached := make(chan struct{})
	w.requests.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if request.Method == http.MethodGet || strings.Contains(request.URL.Path, "/events") || request.URL.Query().Get("dryRun") != "" {
			return send(request)
		}
		n := int(writes.Add(1))
		if n < write {
			return send(request)
		}
		if n == write {
			if takesEffect {
				if response, err := send(request); err == nil {
					_ = response.Body.Close()
				}
			}
			close(reached)
		}
		return nil, errors.New("the agent has ended")
	})
	commit = push()
	w.refresh("web")
	isRecorded := make(chan struct{})
	go func() {
		defer close(isRecorded)
		w.wait("web", func(app *v1alpha1.Application) error {
			if app.Status.Sync.Revision != commit || app.Status.OperationState.SyncResult.Revision != commit {
				return fmt.Errorf("it is at %q with %s", app.Status.Sync.Revision, summaryOf(app))
			}
			return nil
		})
	}()
	select {
	case <-reached:
		isEnded = true
	case <-isRecorded:
	}
	w.engine.Stop()
	w.requests.Handle(nil)
	w.start()
	<-isRecorded
	// The status is written before the refresh is removed, and the next refresh has the
	// same value: it would be lost with this one.
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return errors.New("the refresh is not done")
		}
		return nil
	})
	return commit, isEnded
}

// recorded waits until an Application is Synced at a revision, and checks that the last
// operation and the history have it.
func (w *world) recorded(name, revision string, syncs int) *v1alpha1.Application {
	w.t.Helper()
	app := w.synced(name, revision)
	state, history := app.Status.OperationState, app.Status.History
	if state == nil || state.Phase != v1alpha1.OperationSucceeded || state.SyncResult.Revision != revision {
		w.t.Errorf("the last operation is %+v, want a sync to %s", state, revision)
	}
	if got := min(syncs, app.Spec.HistoryLimit()); len(history) != got || history[len(history)-1].Revision != revision || history[len(history)-1].ID != int64(syncs-1) {
		w.t.Errorf("the history is %+v, want %d entries with %s and ID %d at the end", history, got, revision, syncs-1)
	}
	return app
}

// A revision that needed no sync is not recorded as one, neither while the agent runs nor
// by the next one.
func TestNoSyncIsRecordedWithoutOne(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", automated)
	w.patch("web", `{"spec": {"ignoreDifferences": [{"kind": "ConfigMap", "jsonPointers": ["/data/value"]}]}}`)
	first := repository.Head(t)
	w.recorded("web", first, 1)
	check := func(revision string) {
		t.Helper()
		app := w.synced("web", revision)
		if history := app.Status.History; len(history) != 1 || history[0].Revision != first || app.Status.OperationState.SyncResult.Revision != first {
			t.Errorf("at %s the history is %+v, want the first sync alone", revision, history)
		}
	}
	ignored := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "a field that is ignored")
	w.refresh("web")
	check(ignored)
	w.engine.Stop()
	elsewhere := repository.Commit(t, map[string]string{"other/two.yaml": configMap("two", "2")}, "another folder")
	w.start()
	check(elsewhere)
	if got := w.valueOf("one"); got != "1" {
		t.Errorf("the value is %q: it was applied", got)
	}
}

// The objects of an Application that is deleted without them and made again are no sync of
// the new one.
func TestNoSyncIsRecordedForOlderObjects(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", automated)
	w.recorded("web", repository.Head(t), 1)
	w.engine.Stop()
	made := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(t.Context(), "one", metav1.GetOptions{}))(t).CreationTimestamp
	// The time of a creation has whole seconds.
	for isOlder := false; !isOlder; {
		w.delete("web", "")
		w.gone("web")
		w.application("web", repository, "web", automated)
		app := must.Get(argotest.Applications(w.cluster, w.control).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		again := app.GetCreationTimestamp()
		isOlder = made.Before(&again)
	}
	w.start()
	if app := w.synced("web", repository.Head(t)); len(app.Status.History) != 0 || app.Status.OperationState != nil {
		t.Errorf("the history is %+v, and the operation %+v", app.Status.History, app.Status.OperationState)
	}
}
