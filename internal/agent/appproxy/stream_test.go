package appproxy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// connectRequest is a call without a client.
func connectRequest(t *testing.T, path string) *http.Request {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
	request.Header.Set("Content-Type", "application/json")
	return request
}

func serve(handler http.Handler, request *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// label changes a label of an Application.
func (w *world) label(t *testing.T, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"turn":%q}}}`, value)
	must.Get(w.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(w.control).
		Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

// TestWatch: who looks sees the state and each change of it, all share one watch,
// and the stream reports the end of an Application.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/shop.git")
	w.application(t, "other", "https://git.example/other.git")
	apps := w.apps(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const people = 5
	var streams []*connect.ServerStreamForClient[runtimev1.WatchApplicationResponse]
	for range people {
		stream := must.Get(apps.WatchApplication(ctx, connect.NewRequest(&runtimev1.WatchApplicationRequest{Ref: shopRef()})))(t)
		defer stream.Close()
		streams = append(streams, stream)
		if !stream.Receive() || !strings.Contains(string(stream.Msg().GetApplication().GetManifest()), `"name":"shop"`) {
			t.Fatalf("the first answer is %v, %v", stream.Msg(), stream.Err())
		}
	}
	w.label(t, "other", "1") // nobody looks at it
	w.label(t, "shop", "2")
	for _, stream := range streams {
		if !stream.Receive() || !strings.Contains(string(stream.Msg().GetApplication().GetManifest()), `"turn":"2"`) {
			t.Fatalf("after a change: %v, %v", stream.Msg(), stream.Err())
		}
	}
	if watches := w.gate.Requests("/applications?", "watch=true"); len(watches) != 1 {
		t.Errorf("the API server has the watches %q for %d people", watches, people)
	}
	must.Do(t, w.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(w.control).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	for _, stream := range streams {
		if !stream.Receive() || !stream.Msg().GetDeleted() || stream.Receive() || stream.Err() != nil {
			t.Errorf("at the end: %v, %v", stream.Msg(), stream.Err())
		}
	}
	missing := must.Get(apps.WatchApplication(ctx, connect.NewRequest(&runtimev1.WatchApplicationRequest{Ref: shopRef()})))(t)
	defer missing.Close()
	if missing.Receive() || connect.CodeOf(missing.Err()) != connect.CodeNotFound {
		t.Errorf("one that is not there: %v", missing.Err())
	}
}

// loggedPods are two Pods of an Application, and one that belongs to no Application.
const loggedPods = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: https://git.example/shop.git, path: "."}
  destination: {namespace: NAMESPACE}
status:
  sync: {status: Synced}
  health: {status: Healthy}
  resources:
  - {version: v1, kind: Pod, namespace: NAMESPACE, name: one, status: Synced}
  - {version: v1, kind: Pod, namespace: NAMESPACE, name: two, status: Synced}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app.kubernetes.io/part-of: slipway, app.kubernetes.io/component: agent, slipway.dev/app: LABEL}, annotations: {argocd.argoproj.io/tracking-id: "shop:/Pod:NAMESPACE/one"}}
spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app.kubernetes.io/part-of: slipway, app.kubernetes.io/component: edge, slipway.dev/app: LABEL}, annotations: {argocd.argoproj.io/tracking-id: "shop:/Pod:NAMESPACE/two"}}
spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs}
spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}
`

// logs reads a log to its end, or until enough returns true.
func (w *world) logs(t *testing.T, request *runtimev1.LogsRequest, enough func([]*runtimev1.LogsResponse) bool) ([]*runtimev1.LogsResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream := must.Get(w.apps(t).Logs(ctx, connect.NewRequest(request)))(t)
	defer stream.Close()
	var lines []*runtimev1.LogsResponse
	for stream.Receive() {
		lines = append(lines, stream.Msg())
		if enough != nil && enough(lines) {
			cancel()
			break
		}
	}
	return lines, stream.Err()
}

// writers are the Pods that lines are of.
func writers(lines []*runtimev1.LogsResponse) map[string]int {
	found := map[string]int{}
	for _, line := range lines {
		found[line.GetPod()]++
	}
	return found
}

// TestLogs: of many Pods merged by time, of one, the last lines, with a text, and
// followed until the client stops reading.
func TestLogs(t *testing.T) {
	w := newWorld(t)
	label := tracking.App{Namespace: w.control, Name: "shop"}.Label()
	w.apply(t, strings.ReplaceAll(loggedPods, "LABEL", label))
	for _, name := range []string{"one", "two", "theirs"} {
		w.awaitPod(t, name)
	}
	// Following them shows when both have written something.
	_, err := w.logs(t, &runtimev1.LogsRequest{Ref: shopRef(), Follow: true, TailLines: -1}, func(lines []*runtimev1.LogsResponse) bool {
		return len(writers(lines)) == 2 && len(lines) >= 2
	})
	if err != nil && connect.CodeOf(err) != connect.CodeCanceled {
		t.Fatalf("followed: %v", err)
	}
	all, err := w.logs(t, &runtimev1.LogsRequest{Ref: shopRef(), TailLines: -1}, nil)
	if found := writers(all); err != nil || found["one"] == 0 || found["two"] == 0 || len(found) != 2 {
		t.Fatalf("all: %v, %v", found, err)
	}
	for i := 1; i < len(all); i++ {
		if all[i].GetAt().AsTime().Before(all[i-1].GetAt().AsTime()) {
			t.Errorf("line %d is older than the one before: %v", i, all)
		}
	}
	one := &runtimev1.ObjectRef{Kind: "Pod", Namespace: w.control, Name: "one"}
	lines, err := w.logs(t, &runtimev1.LogsRequest{Ref: shopRef(), Object: one, TailLines: 1}, nil)
	if err != nil || len(lines) != 1 || lines[0].GetPod() != "one" || lines[0].GetContainer() != "web" || lines[0].GetAt() == nil {
		t.Errorf("the last line of one: %v, %v", lines, err)
	}
	if lines, err := w.logs(t, &runtimev1.LogsRequest{Ref: shopRef(), Filter: "no line has this"}, nil); err != nil || len(lines) != 0 {
		t.Errorf("with a text: %v, %v", lines, err)
	}
	for name, request := range map[string]*runtimev1.LogsRequest{
		"somebody else's Pod":      {Ref: shopRef(), Object: &runtimev1.ObjectRef{Kind: "Pod", Namespace: w.control, Name: "theirs"}},
		"another Pod of that name": {Ref: shopRef(), Object: &runtimev1.ObjectRef{Kind: "Pod", Namespace: w.control, Name: "one", Uid: "other"}},
		"no such container":        {Ref: shopRef(), Container: "db"},
	} {
		if lines, err := w.logs(t, request, nil); err == nil || len(lines) > 0 {
			t.Errorf("%s: %v, %v", name, lines, err)
		}
	}
	w.requireComponentLogs(t)
}

// awaitPod waits until a Pod runs.
func (w *world) awaitPod(t *testing.T, name string) {
	t.Helper()
	kubetest.WaitFor(t, w.Client.CoreV1().Pods(w.control), kube.Named(name), patience, func(found []*corev1.Pod) error {
		if len(found) != 1 || found[0].Status.Phase != corev1.PodRunning {
			return errors.New("it does not run")
		}
		return nil
	})
}

// requireComponentLogs: R118: the logs of the runtime as one archive, or of one
// component as lines.
func (w *world) requireComponentLogs(t *testing.T) {
	t.Helper()
	runtime := w.runtime(t)
	stream := must.Get(runtime.ComponentLogs(t.Context(), connect.NewRequest(&runtimev1.ComponentLogsRequest{})))(t)
	defer stream.Close()
	var packed bytes.Buffer
	for stream.Receive() {
		packed.Write(stream.Msg().GetData())
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	unpacked := must.Get(gzip.NewReader(&packed))(t)
	archive := tar.NewReader(unpacked)
	sizes := map[string]int64{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		sizes[header.Name] = header.Size
	}
	if len(sizes) != 2 || sizes["one/web.log"] == 0 || sizes["two/web.log"] == 0 {
		t.Errorf("the archive has %v", sizes)
	}
	lines := must.Get(runtime.ComponentLogs(t.Context(), connect.NewRequest(&runtimev1.ComponentLogsRequest{Component: "edge", TailLines: 1})))(t)
	defer lines.Close()
	if !lines.Receive() || lines.Msg().GetPod() != "two" || len(lines.Msg().GetData()) == 0 || lines.Receive() || lines.Err() != nil {
		t.Errorf("the last line of one component: %v, %v", lines.Msg(), lines.Err())
	}
	missing := must.Get(runtime.ComponentLogs(t.Context(), connect.NewRequest(&runtimev1.ComponentLogsRequest{Component: "database"})))(t)
	defer missing.Close()
	if missing.Receive() || connect.CodeOf(missing.Err()) != connect.CodeNotFound || !strings.Contains(missing.Err().Error(), "there are agent, edge") {
		t.Errorf("a component that there is not: %v", missing.Err())
	}
}
