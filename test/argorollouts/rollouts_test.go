// Package argorollouts runs canaries of Argo Rollouts through the edge: its controller as
// its module has it, with trafficRouting.nginx, the built edge, a real API server and Pods
// that are processes.
//
// The controller is compiled by make argo-rollouts, not by go test: testdata/controller is
// a Go module of its own.
package argorollouts

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// variableController has the path of the compiled controller.
	variableController = "ARGO_ROLLOUTS"
	host               = "demo.test"
	// sample is the number of requests of which a share is measured.
	sample = 2000
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestCanary: the share of requests that reach the canary is the weight of each step, a
// header leads there regardless of it, and an abort takes all requests back. No request
// fails.
func TestCanary(t *testing.T) {
	controller := os.Getenv(variableController)
	if controller == "" {
		t.Skip("it takes minutes to compile the controller: make argo-rollouts")
	}
	w := newWorld(t, controller)
	stop := w.load(t)

	w.deploy(t, "v2")
	w.awaitStep(t, 1)
	w.awaitShare(t, "v2", 20)
	w.checkHeader(t, "v2", "v1")
	w.promote(t)
	w.awaitStep(t, 3)
	w.awaitShare(t, "v2", 60)
	w.promote(t)
	w.awaitPhase(t, "Healthy")
	w.awaitShare(t, "v2", 100)

	w.deploy(t, "v3")
	w.awaitStep(t, 1)
	w.awaitShare(t, "v3", 20)
	kubetest.Patch(t, w.rollouts, "demo", `{"status":{"abort":true}}`)
	w.awaitPhase(t, "Degraded")
	w.awaitShare(t, "v3", 0)
	stop()
}

// world is a cluster with the edge, the controller and a Rollout.
type world struct {
	*kubetest.Cluster
	namespace string
	rollouts  dynamic.ResourceInterface
	client    *http.Client
	edge      string
}

// newWorld starts everything, and waits until the first version is served.
func newWorld(t *testing.T, controller string) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Start(t)}
	w.DefineFiles(t, filepath.Join(moduleFolder(t), "manifests", "crds", "*-crd.yaml"))
	w.namespace = w.Namespace(t)
	w.rollouts = w.Dynamic.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}).Namespace(w.namespace)
	w.Apply(t, w.namespace, objects)
	edge := edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr("127.0.0.9"), Kubeconfig: w.Kubeconfig, Namespace: w.namespace,
		Arguments: []string{"--providers.kubernetesIngressNGINX=true"},
	}.Start(t)
	edge.AwaitReady(t)
	w.edge = edge.On(edgeprocess.PlainPort)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport, Timeout: time.Minute}

	command := exec.Command(controller, "--kubeconfig="+w.Kubeconfig, "--leader-elect=false", "--metricsPort=9190", "--healthzPort=9191")
	command.Env = programs.Environment(t)
	programs.Run(t, "the controller of Argo Rollouts", command)
	w.deploy(t, "v1")
	w.awaitPhase(t, "Healthy")
	w.awaitShare(t, "v1", 100)
	return w
}

// moduleFolder is the folder of Argo Rollouts.
func moduleFolder(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-rollouts")
	command.Dir = "testdata/controller"
	return strings.TrimSpace(string(must.Get(command.Output())(t)))
}

// services are those of the two versions, of which a Rollout sets the selectors.
const services = `
apiVersion: v1
kind: Service
metadata: {name: stable}
spec: {selector: {app: demo}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: canary}
spec: {selector: {app: demo}, ports: [{port: 80, targetPort: 8080}]}
---`

const objects = services + `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: demo}
spec:
  ingressClassName: nginx
  rules: [{host: demo.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: stable, port: {number: 80}}}}]}}]
`

// canary is a Rollout up to the way that it routes traffic.
const canary = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo}
spec:
  replicas: 2
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec:
      terminationGracePeriodSeconds: 15
      containers:
      - name: demo
        image: slipway.dev/demo:VERSION
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
  strategy:
    canary:
      stableService: stable
      canaryService: canary
`

const rollout = canary + `      trafficRouting: {nginx: {stableIngress: demo, additionalIngressAnnotations: {canary-by-header: X-Canary}}}
      steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}, {pause: {}}]
`

// deploy sets the version of the Rollout.
func (w *world) deploy(t *testing.T, version string) {
	t.Helper()
	w.Apply(t, w.namespace, strings.ReplaceAll(rollout, "VERSION", version))
}

// promote ends a pause, as kubectl argo rollouts promote does.
func (w *world) promote(t *testing.T) {
	t.Helper()
	kubetest.Patch(t, w.rollouts, "demo", `{"status":{"pauseConditions":null}}`)
}

// awaitRollout waits for a state of the Rollout that the controller has written for its
// current version.
func (w *world) awaitRollout(t *testing.T, what string, holds func(*unstructured.Unstructured) bool) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		object, err := w.rollouts.Get(ctx, "demo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedString(object.Object, "status", "observedGeneration")
		if observed != fmt.Sprint(object.GetGeneration()) || !holds(object) {
			status, _ := json.Marshal(object.Object["status"])
			return fmt.Errorf("the Rollout is not %s: %s", what, status)
		}
		return nil
	})
}

// awaitStep waits until the Rollout is paused at a step.
func (w *world) awaitStep(t *testing.T, step int64) {
	t.Helper()
	w.awaitRollout(t, fmt.Sprintf("paused at step %d", step), func(object *unstructured.Unstructured) bool {
		index, _, _ := unstructured.NestedInt64(object.Object, "status", "currentStepIndex")
		pauses, _, _ := unstructured.NestedSlice(object.Object, "status", "pauseConditions")
		return index == step && len(pauses) == 1
	})
}

// awaitPhase waits for a phase of the Rollout.
func (w *world) awaitPhase(t *testing.T, want string) {
	t.Helper()
	w.awaitRollout(t, want, func(object *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return phase == want
	})
}

// version sends a request and returns the version that responded.
func (w *world) version(ctx context.Context, header string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.edge+"/api", nil)
	if err != nil {
		return "", err
	}
	request.Host = host
	if header != "" {
		request.Header.Set("X-Canary", header)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var got struct{ Version string }
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", response.StatusCode)
	}
	err = json.NewDecoder(response.Body).Decode(&got)
	return got.Version, err
}

// awaitShare waits until a version has that percentage of the requests, within five
// standard deviations: the edge follows the Ingress a moment later.
func (w *world) awaitShare(t *testing.T, version string, percent float64) {
	t.Helper()
	tolerance := 5 * math.Sqrt(percent*(100-percent)/sample)
	programs.Eventually(t, func(ctx context.Context) error {
		count := 0
		for range sample {
			got, err := w.version(ctx, "")
			if err != nil {
				return err
			}
			if got == version {
				count++
			}
		}
		share := float64(count) * 100 / sample
		if math.Abs(share-percent) > tolerance {
			return fmt.Errorf("%s has %.1f %% of the requests, want %.0f %% ± %.1f", version, share, percent, tolerance)
		}
		t.Logf("%s has %.1f %% of %d requests, with a weight of %.0f", version, share, sample, percent)
		return nil
	})
}

// checkHeader checks that the header of the canary decides.
func (w *world) checkHeader(t *testing.T, canary, stable string) {
	t.Helper()
	for value, want := range map[string]string{"always": canary, "never": stable} {
		for range 50 {
			if got := must.Get(w.version(t.Context(), value))(t); got != want {
				t.Errorf("X-Canary: %s leads to %s, want %s", value, got, want)
			}
		}
	}
}

// load sends requests until stop is called, of which none may fail.
func (w *world) load(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var sent, failed atomic.Int64
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				if _, err := w.version(context.Background(), ""); err != nil && failed.Add(1) < 10 {
					t.Errorf("a request failed: %v", err)
				}
			}
		})
	}
	end := sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(end)
	return func() {
		end()
		t.Logf("%d requests beside the measurements, %d failed", sent.Load(), failed.Load())
	}
}
