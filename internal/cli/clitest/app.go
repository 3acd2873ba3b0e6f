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

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// AppTimeout bounds every wait of a test. It is generous, because a machine
// that runs all tests at once is slow; a wait that succeeds ends early.
const AppTimeout = 60 * time.Second

// Applications is the resource of Argo's Applications, for the dynamic client.
var Applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// definitions installs the CRDs once per test binary in the cluster that all
// tests share.
var definitions sync.Once

// AppWorld is the shared cluster with a namespace for one test, and runs
// commands in it. Each test has a world of its own.
type AppWorld struct {
	*kubetest.Cluster
	TestNamespace string
	// UserKubeconfig is that of the user who runs commands: the administrator,
	// unless a test replaces it with one of fewer rights.
	UserKubeconfig string
}

// NewAppWorld gives a test its namespace in a cluster that has Argo's CRDs. The
// namespace is deleted when the test ends.
func NewAppWorld(t *testing.T) *AppWorld {
	t.Helper()
	cluster := kubetest.Shared(t)
	definitions.Do(func() { InstallDefinitions(t, cluster) })
	world := &AppWorld{Cluster: cluster, TestNamespace: cluster.Namespace(t), UserKubeconfig: cluster.Kubeconfig}
	Clean(t) // after the cluster, whose variables it takes away
	return world
}

// InstallDefinitions installs Argo's CustomResourceDefinitions from the chart.
// The path is relative to the package of the test, two levels below internal.
func InstallDefinitions(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	cluster.DefineFiles(t, "../../../charts/gitops-runtime/crds/argoproj.io_*.yaml")
}

// mustJSON encodes a value, and fails the test if that is impossible.
func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	return must.Get(json.Marshal(value))(t)
}

// App runs `slipway app` in the process of the test and waits for its end. The
// words are split at blanks, so no argument can contain one.
func (w *AppWorld) App(t *testing.T, line string) Result {
	t.Helper()
	return w.AppContext(t, t.Context(), line)
}

// AppContext is App with a context that the test can cancel, as a signal would.
// It adds the kubeconfig, and the namespace unless the line names one.
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

// AppBackground runs a command in a goroutine until stop is called, as by
// Ctrl-C. The exit code arrives on done. out gets both standard output and
// error and must be safe for concurrent use if the test reads it meanwhile.
func (w *AppWorld) AppBackground(t *testing.T, out io.Writer, line string) (stop func(), done <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--kubeconfig", w.UserKubeconfig, "-n", w.TestNamespace)
	// Buffered: a test that does not receive the code leaks no goroutine.
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, args, out, out) }()
	return cancel, ended
}

// ApplyManifests applies manifests in the namespace of the test; the word
// NAMESPACE in them is replaced by its name.
func (w *AppWorld) ApplyManifests(t *testing.T, manifests string) {
	t.Helper()
	w.Apply(t, w.TestNamespace, strings.ReplaceAll(manifests, "NAMESPACE", w.TestNamespace))
}

// Patch changes an Application with a merge patch, in place of the agent, for
// tests that run without one.
func (w *AppWorld) Patch(t *testing.T, name string, change map[string]any) {
	t.Helper()
	kubetest.Patch(t, w.Dynamic.Resource(Applications).Namespace(w.TestNamespace), name, string(mustJSON(t, change)))
}

// Await watches an Application until condition returns nil, and returns its
// last state. The error of condition is part of the failure after AppPatience.
func (w *AppWorld) Await(t *testing.T, name string, condition func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	source := w.Dynamic.Resource(Applications).Namespace(w.TestNamespace)
	found := kubetest.WaitFor(t, source, kube.Named(name), AppTimeout, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return context.DeadlineExceeded
		}
		return condition(found[0])
	})
	return found[0]
}

// Shown returns a text with the name of the test's namespace replaced by
// NAMESPACE, so that it can be compared with a fixed one.
func (w *AppWorld) Shown(text string) string {
	return strings.ReplaceAll(text, w.TestNamespace, "NAMESPACE")
}

// ConfigMap returns the manifest of a ConfigMap with one value.
func ConfigMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// Has reports whether the namespace has a ConfigMap of a name.
func (w *AppWorld) Has(t *testing.T, name string) bool {
	t.Helper()
	_, err := w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}
