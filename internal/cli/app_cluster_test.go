package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// appPatience bounds what a test waits for.
const appPatience = 60 * time.Second

var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// definitions are installed once in the cluster that all tests share.
var definitions sync.Once

// appWorld is a cluster with a namespace of the test, and what runs commands in
// it.
type appWorld struct {
	*kubetest.Cluster
	namespace string
	// kubeconfig is who runs commands: the administrator, unless it is changed.
	kubeconfig string
}

// newAppWorld gives a test its namespace in a cluster that knows Applications.
func newAppWorld(t *testing.T) *appWorld {
	t.Helper()
	cluster := kubetest.Shared(t)
	definitions.Do(func() { installDefinitions(t, cluster) })
	world := &appWorld{Cluster: cluster, namespace: cluster.Namespace(t), kubeconfig: cluster.Kubeconfig}
	clean(t) // after the cluster, whose variables it takes away
	return world
}

func installDefinitions(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	cluster.DefineFiles(t, "../../charts/gitops-runtime/crds/argoproj.io_*.yaml")
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// app runs `slipway app` in the world. The words are split at blanks.
func (w *appWorld) app(t *testing.T, line string) result {
	t.Helper()
	return w.appContext(t, t.Context(), line)
}

func (w *appWorld) appContext(t *testing.T, ctx context.Context, line string) result {
	t.Helper()
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--kubeconfig", w.kubeconfig)
	if !strings.Contains(line, "-n ") && !strings.Contains(line, "-A") {
		args = append(args, "-n", w.namespace)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Execute(ctx, args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// appBackground runs a command until it is stopped, as by Ctrl-C.
func (w *appWorld) appBackground(t *testing.T, out io.Writer, line string) (stop func(), done <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--kubeconfig", w.kubeconfig, "-n", w.namespace)
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, args, out, out) }()
	return cancel, ended
}

// apply applies manifests in the namespace; NAMESPACE in them is its name.
func (w *appWorld) apply(t *testing.T, manifests string) {
	t.Helper()
	w.Apply(t, w.namespace, strings.ReplaceAll(manifests, "NAMESPACE", w.namespace))
}

// patch changes an Application, as its agent does.
func (w *appWorld) patch(t *testing.T, name string, change map[string]any) {
	t.Helper()
	_, err := w.Dynamic.Resource(applications).Namespace(w.namespace).
		Patch(t.Context(), name, types.MergePatchType, mustJSON(t, change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for a state of an Application.
func (w *appWorld) await(t *testing.T, name string, condition func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	source := w.Dynamic.Resource(applications).Namespace(w.namespace)
	found := kubetest.WaitFor(t, source, kube.Named(name), appPatience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return context.DeadlineExceeded
		}
		return condition(found[0])
	})
	return found[0]
}

// shown is a text with the names of the test replaced, so that it can be
// compared.
func (w *appWorld) shown(text string) string {
	return strings.ReplaceAll(text, w.namespace, "NAMESPACE")
}

// requireText compares what was printed, line by line without spaces at the end.
func requireText(t *testing.T, got, want string) {
	t.Helper()
	if trimLines(got) != trimLines(want) {
		t.Errorf("got\n%s\nwanted\n%s", got, want)
	}
}

// trimLines makes runs of blanks one: columns are as wide as names that a test
// cannot choose.
func trimLines(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}
