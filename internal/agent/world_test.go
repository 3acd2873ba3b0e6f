package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// hookSecret is what the tests' webhooks are signed with.
const hookSecret = "signed-with-this"

func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }

var (
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	installOnce  sync.Once
)

// world is a cluster with a control namespace of the test.
type world struct {
	*kubetest.Cluster
	control string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	installOnce.Do(func() { argotest.Install(t, cluster) })
	return &world{Cluster: cluster, control: cluster.Namespace(t)}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// apply applies manifests; CONTROL in them is the control namespace.
func (w *world) apply(t *testing.T, manifests string) {
	t.Helper()
	w.Apply(t, w.control, strings.ReplaceAll(manifests, "CONTROL", w.control))
}

// application is one that syncs a repository into the control namespace.
func (w *world) application(t *testing.T, name, repository string) {
	t.Helper()
	w.apply(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: CONTROL}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, repository))
}

// await waits for a state of an Application.
func (w *world) await(t *testing.T, name string, condition func(status map[string]any) error) {
	t.Helper()
	kubetest.WaitFor(t, w.Dynamic.Resource(applications).Namespace(w.control), kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no such Application")
		}
		status, _ := found[0].Object["status"].(map[string]any)
		return condition(status)
	})
}

// syncedTo waits until an Application is synced to a commit.
func (w *world) syncedTo(t *testing.T, name, commit string) {
	t.Helper()
	w.await(t, name, func(status map[string]any) error {
		state, _, _ := unstructured.NestedString(status, "sync", "status")
		revision, _, _ := unstructured.NestedString(status, "sync", "revision")
		phase, _, _ := unstructured.NestedString(status, "operationState", "phase")
		if state != "Synced" || revision != commit || phase != "Succeeded" {
			return fmt.Errorf("it is %s at %s, the operation %s, and not Synced at %s", state, revision, phase, commit)
		}
		return nil
	})
}

// replica is a running agent.
type replica struct {
	webhooks string
	health   *observe.Health
	log      *programs.Output
	stop     context.CancelFunc
	ended    chan error
}

// start starts an agent. It ends with the test.
func (w *world) start(t *testing.T, identity string, changes ...func(*agent.Options)) *replica {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{
		webhooks: "http://" + listener.Addr().String(), health: &observe.Health{}, log: &programs.Output{}, stop: cancel, ended: make(chan error, 1),
	}
	// The Lease is in the namespace of the connection.
	cluster := *w.Cluster.Cluster
	cluster.Namespace = w.control
	options := agent.Options{
		Cluster: &cluster, ControlNamespace: w.control, Interval: time.Hour, Jitter: time.Second, Workers: 4,
		FetchTimeout: 20 * time.Second, Render: render.Options{Workers: 1}, Webhooks: listener, WebhookSecret: "argocd-secret",
		Lease: "agent", Identity: identity,
		Log:     slog.New(slog.NewTextHandler(r.log, nil)),
		Metrics: agent.NewMetrics(observe.NewMetrics("test", "test")), Health: r.health,
	}
	for _, change := range changes {
		change(&options)
	}
	go func() { r.ended <- agent.Run(ctx, options) }()
	t.Cleanup(func() {
		r.end(t)
		if t.Failed() {
			programs.ShowLog(t, identity, r.log.String())
			found, err := w.Dynamic.Resource(applications).Namespace(w.control).List(context.Background(), metav1.ListOptions{})
			if err == nil {
				for _, app := range found.Items {
					programs.ShowLog(t, "the status of "+app.GetName(), fmt.Sprint(app.Object["status"]))
				}
			}
		}
	})
	return r
}

// end ends an agent in good order.
func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		r.ended <- err
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the agent does not end")
	}
}

// readyWhen waits until what is missing for readiness has a text in it; nothing
// is what is missing when it is ready.
func (r *replica) readyWhen(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		missing := strings.Join(r.health.Missing(), "\n")
		if want == "" && missing == "" || want != "" && strings.Contains(missing, want) {
			return
		}
		select {
		case err := <-r.ended:
			t.Fatalf("the agent ended with %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("it is not %q that is missing, but %q", want, r.health.Missing())
}

// logs waits until the log has a text.
func (r *replica) logs(t *testing.T, want string) {
	t.Helper()
	r.log.WaitFor(t, want)
}

// pushed sends what GitHub sends after a push.
func (r *replica) pushed(t *testing.T, path, repository, secret string) int {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	push := providertest.Push{Path: "team/app", CloneURL: repository, Before: strings.Repeat("a", 40), After: strings.Repeat("b", 40)}
	return push.SendGitHub(t, http.DefaultTransport, providertest.Hook{URL: r.webhooks + path, Secret: secret})
}
