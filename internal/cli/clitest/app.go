package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// AppPatience bounds what a test waits for.
const AppPatience = 60 * time.Second

// Applications is the resource of Argo's Applications.
var Applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// definitions are installed once in the cluster that all tests share.
var definitions sync.Once

// AppWorld is a cluster with a namespace of the test, and what runs commands in
// it.
type AppWorld struct {
	*kubetest.Cluster
	TestNamespace string
	// kubeconfig is who runs commands: the administrator, unless it is changed.
	UserKubeconfig string
}

// NewAppWorld gives a test its namespace in a cluster that knows Applications.
func NewAppWorld(t *testing.T) *AppWorld {
	t.Helper()
	cluster := kubetest.Shared(t)
	definitions.Do(func() { InstallDefinitions(t, cluster) })
	world := &AppWorld{Cluster: cluster, TestNamespace: cluster.Namespace(t), UserKubeconfig: cluster.Kubeconfig}
	Clean(t) // after the cluster, whose variables it takes away
	return world
}

// InstallDefinitions installs Argo's CustomResourceDefinitions.
func InstallDefinitions(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	cluster.DefineFiles(t, "../../../charts/gitops-runtime/crds/argoproj.io_*.yaml")
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// App runs `slipway app` in the world. The words are split at blanks.
func (w *AppWorld) App(t *testing.T, line string) Result {
	t.Helper()
	return w.AppContext(t, t.Context(), line)
}

// AppContext is App with a context that the test can cancel.
func (w *AppWorld) AppContext(t *testing.T, ctx context.Context, line string) Result {
	t.Helper()
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--kubeconfig", w.UserKubeconfig)
	if !strings.Contains(line, "-n ") && !strings.Contains(line, "-A") {
		args = append(args, "-n", w.TestNamespace)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Execute(ctx, args, &stdout, &stderr)
	return Result{code, stdout.String(), stderr.String()}
}

// AppBackground runs a command until it is stopped, as by Ctrl-C.
func (w *AppWorld) AppBackground(t *testing.T, out io.Writer, line string) (stop func(), done <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--kubeconfig", w.UserKubeconfig, "-n", w.TestNamespace)
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, args, out, out) }()
	return cancel, ended
}

// ApplyManifests applies manifests in the namespace; NAMESPACE in them is its name.
func (w *AppWorld) ApplyManifests(t *testing.T, manifests string) {
	t.Helper()
	w.Apply(t, w.TestNamespace, strings.ReplaceAll(manifests, "NAMESPACE", w.TestNamespace))
}

// Patch changes an Application, as its agent does.
func (w *AppWorld) Patch(t *testing.T, name string, change map[string]any) {
	t.Helper()
	_, err := w.Dynamic.Resource(Applications).Namespace(w.TestNamespace).
		Patch(t.Context(), name, types.MergePatchType, mustJSON(t, change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Await waits for a state of an Application.
func (w *AppWorld) Await(t *testing.T, name string, condition func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	source := w.Dynamic.Resource(Applications).Namespace(w.TestNamespace)
	found := kubetest.WaitFor(t, source, kube.Named(name), AppPatience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return context.DeadlineExceeded
		}
		return condition(found[0])
	})
	return found[0]
}

// Shown is a text with the names of the test replaced, so that it can be
// compared.
func (w *AppWorld) Shown(text string) string {
	return strings.ReplaceAll(text, w.TestNamespace, "NAMESPACE")
}

// MovedSettings is the manifest of an object that an Application moves with.
const MovedSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n"

// ArgoHas makes an Application as Argo CD leaves it after a sync.
func (w *AppWorld) ArgoHas(t *testing.T, argo, address string) {
	t.Helper()
	w.ApplyManifests(t, strings.Replace(MovedSettings, "{name: settings}", "{name: settings, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:NAMESPACE/settings'}}", 1))
	w.Apply(t, argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true}}
`, address, w.TestNamespace))
	status := mustJSON(t, map[string]any{"status": map[string]any{
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"source": map[string]any{"repoURL": address}, "destination": map[string]any{}}},
		"resources": []any{map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": w.TestNamespace, "name": "settings", "status": "Synced"}},
	}})
	_, err := w.Dynamic.Resource(Applications).Namespace(argo).Patch(t.Context(), "shop", types.MergePatchType, status, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// ConfigMap is a manifest.
func ConfigMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// Has reports whether the namespace has a ConfigMap.
func (w *AppWorld) Has(t *testing.T, name string) bool {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// AwaitLogs waits until each Pod has written something.
func (w *AppWorld) AwaitLogs(t *testing.T) {
	t.Helper()
	pods, err := w.Client.CoreV1().Pods(w.TestNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("the Pods are %v: %v", pods, err)
	}
	var out LockedBuffer
	stop, done := w.AppBackground(t, &out, "logs web --follow")
	for _, pod := range pods.Items {
		out.WaitFor(t, "["+pod.Name+"/web] ")
	}
	stop()
	<-done
}
