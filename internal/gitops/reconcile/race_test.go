package reconcile_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

var errCut = errors.New("the cable is cut")

// What a user writes while a sync is recorded stays, and is looked at; and the
// sync is recorded all the same.
func TestUserWritesMeanwhile(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "more/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	var once sync.Once
	meet := func(request *http.Request) error {
		if writes(request) {
			once.Do(func() {
				w.patch("web", `{"spec": {"source": {"path": "more"}}, "operation": {"initiatedBy": {"username": "bob"}, "sync": {}}}`)
			})
		}
		return nil
	}
	w.meet(meet)
	w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {}}}`)
	// The second request was written after the first sync had ended, so it is
	// taken up too, for the path that the user wrote with it.
	w.value("two", "2")
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Operation != nil || len(app.Status.History) != 2 {
			return fmt.Errorf("it is %s with %d entries in its history", summaryOf(app), len(app.Status.History))
		}
		return nil
	})
	history := app.Status.History
	if app.Spec.Source.Path != "more" || history[0].InitiatedBy.Username != "ann" || history[1].InitiatedBy.Username != "bob" {
		t.Errorf("the path is %s and the history %+v", app.Spec.Source.Path, history)
	}
	w.value("one", "1")
}

// An operation whose end cannot be written is remembered, and not done again.
func TestStatusCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	var tries atomic.Int64
	meet := func(request *http.Request) error {
		if writes(request) && tries.Add(1) <= 2 {
			return errCut
		}
		return nil
	}
	w.meet(meet)
	w.application("web", repository, "web", automated)
	app := w.synced("web", repository.Head(t))
	if len(app.Status.History) != 1 || app.Status.OperationState.SyncResult.Resources[0].Message != "configmap/one created" {
		t.Errorf("the history is %+v and the result %+v, want those of the one sync", app.Status.History, app.Status.OperationState.SyncResult)
	}
}

// A program that ends after it applied something and before it could write the status does
// it again, which changes nothing.
func TestEndsBeforeTheStatusIsWritten(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	tried := make(chan struct{})
	var once sync.Once
	meet := func(request *http.Request) error {
		if writes(request) {
			once.Do(func() { close(tried) })
			return errCut
		}
		return nil
	}
	w.meet(meet)
	w.application("web", repository, "web", automated)
	<-tried
	w.value("one", "1")
	before := w.versionOf("one")
	w.engine.Stop()
	w.requests.Handle(nil)
	w.start()
	app := w.synced("web", repository.Head(t))
	if after := w.versionOf("one"); after != before {
		t.Errorf("the object was written again: version %s, then %s", before, after)
	}
	if history := app.Status.History; len(history) != 1 || history[0].Revision != repository.Head(t) {
		t.Errorf("the history is %+v, want the sync that was not recorded", history)
	}
}
