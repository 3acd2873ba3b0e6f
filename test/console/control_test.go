package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/test/gitops/agentprocess"
)

// maxCommand bounds what a spec sends.
const maxCommand = 1 << 20

// command is something that a spec asks for. It is done by the goroutine of the test,
// which alone may fail it.
type command struct {
	do     func(t *testing.T) (any, error)
	answer chan outcome
}

type outcome struct {
	value any
	err   error
}

// deeds is what specs can ask for, by path. Each reads its own JSON.
func (w *world) deeds() map[string]func(t *testing.T, body []byte) (any, error) {
	return map[string]func(t *testing.T, body []byte) (any, error){
		"/install":        w.install,
		"/push":           w.push,
		"/files":          w.pushFiles,
		"/refresh":        w.refresh,
		"/policy":         w.setPolicy,
		"/apply":          w.apply,
		"/platform/stop":  w.stopPlatform,
		"/platform/start": w.restartPlatform,
		"/load/start":     w.startLoad,
		"/load/stop":      w.stopLoad,
		"/crowd":          w.gather,
		"/fleet":          w.gatherFleet,
		"/fleet/change":   w.changeFleet,
		"/past":           w.reportPast,
		"/value":          w.value,
		"/pods/delete":    w.deletePods,
	}
}

// serveControl listens for what specs ask for.
func (w *world) serveControl(t *testing.T) {
	t.Helper()
	mux := http.NewServeMux()
	for path, deed := range w.deeds() {
		mux.HandleFunc("POST "+path, func(answer http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(answer, r.Body, maxCommand))
			if err == nil {
				var value any
				value, err = w.ask(r, func(t *testing.T) (any, error) { return deed(t, body) })
				if err == nil {
					err = json.NewEncoder(answer).Encode(value)
				}
			}
			if err != nil {
				http.Error(answer, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.control = server.URL
}

// ask has the goroutine of the test do something.
func (w *world) ask(r *http.Request, do func(t *testing.T) (any, error)) (any, error) {
	asked := command{do: do, answer: make(chan outcome, 1)}
	select {
	case w.commands <- asked:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	select {
	case got := <-asked.answer:
		return got.value, got.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-w.t.Context().Done():
		return nil, errors.New("the test has ended")
	}
}

func (c command) run(t *testing.T) {
	value, err := c.do(t)
	c.answer <- outcome{value, err}
}

func read[T any](body []byte) (into T, err error) {
	if err = json.Unmarshal(body, &into); err != nil {
		err = fmt.Errorf("the command: %w", err)
	}
	return into, err
}

// change is another value of an application.
type change struct{ Namespace, Folder, Value, Message string }

// push commits a change and sends the webhooks. It returns the commit.
func (w *world) push(t *testing.T, body []byte) (any, error) {
	asked, err := read[change](body)
	if err != nil {
		return nil, err
	}
	return map[string]string{"commit": w.git.push(t, asked.files(), asked.Message)}, nil
}

// pushFiles commits files by their paths and sends the webhooks. It returns the commit.
func (w *world) pushFiles(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct {
		Files   map[string]string
		Message string
	}](body)
	if err != nil {
		return nil, err
	}
	return map[string]string{"commit": w.git.push(t, asked.Files, asked.Message)}, nil
}

// refresh commits a change, and refreshes the Application in the cluster: no webhook
// comes through while the platform is away.
func (w *world) refresh(t *testing.T, body []byte) (any, error) {
	asked, err := read[change](body)
	if err != nil {
		return nil, err
	}
	commit := w.git.commit(t, asked)
	const patch = `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`
	_, err = agentprocess.Applications(w.cluster.Cluster, asked.Namespace).Patch(t.Context(), asked.Folder, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return map[string]string{"commit": commit}, err
}

// setPolicy replaces the rules of argocd-rbac-cm.
func (w *world) setPolicy(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Rules string }](body)
	if err != nil {
		return nil, err
	}
	w.cluster.Apply(t, "slipway", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-rbac-cm}\ndata: {policy.csv: %q}\n", asked.Rules))
	return struct{}{}, nil
}

// apply creates objects in the namespace of the first runtime.
func (w *world) apply(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Manifests string }](body)
	if err != nil {
		return nil, err
	}
	w.cluster.Apply(t, "slipway", asked.Manifests)
	return struct{}{}, nil
}

func (w *world) stopPlatform(t *testing.T, _ []byte) (any, error) {
	w.platform.Stop(t)
	return struct{}{}, nil
}

func (w *world) restartPlatform(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Options []string }](body)
	if err != nil {
		return nil, err
	}
	w.startPlatform(t, asked.Options...)
	return struct{}{}, nil
}
