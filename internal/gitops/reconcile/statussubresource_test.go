package reconcile_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// removesOperation reports whether a request removes what a client requested:
// the second of two writes.
func removesOperation(request *http.Request) bool {
	return writes(request) && !strings.HasSuffix(request.URL.Path, "/status")
}

// A process that ends after it wrote the state of a requested operation, and
// before it removed the request, does not run it twice: neither one that has
// ended, nor one that still waits.
func TestRequestRunsOnce(t *testing.T) {
	for name, files := range map[string]map[string]string{"ended": {"web/one.yaml": configMap("one", "1")}, "waiting": waiting()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			repository := w.repository("shop", files)
			w.start()
			w.application("web", repository, "web", "")
			w.outOfSync("web")
			tried := make(chan struct{})
			var once sync.Once
			w.meet(func(request *http.Request) error {
				if removesOperation(request) {
					once.Do(func() { close(tried) })
					return errCut
				}
				return nil
			})
			w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {}}}`)
			<-tried
			before := w.wait("web", func(app *v1alpha1.Application) error {
				if app.Operation == nil || app.Status.OperationState == nil {
					return errors.New("the state is not written, or the request is gone")
				}
				return nil
			})
			w.engine.Stop()
			w.requests.Handle(nil)
			w.start()
			after := w.wait("web", func(app *v1alpha1.Application) error {
				if app.Operation != nil {
					return errors.New("the request is still there")
				}
				return nil
			})
			if !after.Status.OperationState.StartedAt.Equal(&before.Status.OperationState.StartedAt) || len(after.Status.History) != len(before.Status.History) {
				t.Errorf("it was run again: %+v", after.Status.OperationState)
			}
			// The same request later is another one.
			if name == "ended" {
				w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {}}}`)
				w.wait("web", func(app *v1alpha1.Application) error {
					if app.Operation != nil || len(app.Status.History) != 2 {
						return fmt.Errorf("the history is %+v", app.Status.History)
					}
					return nil
				})
			}
		})
	}
}

// The engine works with our definition of Applications and with Argo CD's, which
// has no status subresource, and notices when one replaces the other.
func TestDefinitionIsReplaced(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	text, err := v1alpha1.CRDs()
	must.Do(t, err)
	ours := string(text)
	const subresources = "    subresources:\n      status: {}\n"
	if strings.Count(ours, subresources) != 2 {
		t.Fatalf("the definitions have the status subresource %d times", strings.Count(ours, subresources))
	}
	argos := strings.ReplaceAll(ours, subresources, "")
	cluster.Define(t, argos)
	w := &world{t: t, cluster: cluster, git: gittest.Serve(t), control: cluster.Namespace(t), target: cluster.Namespace(t), folder: t.TempDir()}
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	for i, definition := range []string{argos, ours, argos} {
		cluster.Define(t, definition)
		w.serves(definition == ours)
		w.patch("web", `{"operation": {"sync": {}}}`)
		w.wait("web", func(app *v1alpha1.Application) error {
			if app.Operation != nil || len(app.Status.History) != i+1 {
				return fmt.Errorf("after %d definitions it is %s with %d syncs", i+1, summaryOf(app), len(app.Status.History))
			}
			return nil
		})
	}
	// A user ends an operation where the status is no subresource.
	repository.Commit(t, waiting(), "waits")
	w.refresh("web")
	w.patch("web", `{"operation": {"sync": {}}}`)
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Operation != nil || app.Status.OperationState.Phase != v1alpha1.OperationRunning {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	inspector := &inspect.Inspector{Cluster: cluster.Cluster, Manager: "user"}
	found := must.Get(inspector.Get(t.Context(), tracking.App{Namespace: w.control, Name: "web"}))(t)
	_, err = inspector.Terminate(t.Context(), found)
	must.Do(t, err)
	w.operated("web", v1alpha1.OperationFailed)
}

// serves waits until the API server serves the status subresource, or not.
func (w *world) serves(want bool) {
	w.t.Helper()
	w.eventually("the definition is served", func() error {
		serves, err := w.cluster.Serves(w.t.Context(), v1alpha1.APIVersion, "applications/status")
		if err == nil && serves != want {
			err = fmt.Errorf("it serves the status: %v", serves)
		}
		return err
	})
}
