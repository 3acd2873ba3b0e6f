package progressive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.AllowLeaks()) }

const (
	host     = "shop.example.com"
	callHost = "calls.example.com" // of gRPC
	// streamsImage is the image of testdata/streams.
	streamsImage = "registry.test/streams"
)

// revision is a version of the demo, with options of its container and the steps of its
// policy, if they are not the usual ones; or of the program of testdata/streams.
type revision struct {
	image, container, policy string
	program                  bool
}

// world is a cluster with an agent, an edge, and an Application of a Deployment
// that is released.
type world struct {
	cluster         *kubetest.Cluster
	control, target string
	repository      *gittest.Repository
	options         agentprocess.Options
	agent           *agentprocess.Agent
	// web is where the edge takes requests.
	web string
	// version is the number of the last version without a fault.
	version int
}

// newWorld is a world in which the first version is deployed.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, "")
	w.startAgent(t)
	w.deployed(t)
	return w
}

// newWorldWith is a world without an agent, whose kubeconfig is the cluster's if there is no
// other.
func newWorldWith(t *testing.T, kubeconfig string, options ...kubetest.StartOption) *world {
	t.Helper()
	cluster := kubetest.Start(t, options...)
	cluster.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	cluster.Define(t, string(must.Get(slipway.CRDs())(t)))
	w := &world{cluster: cluster, control: cluster.Namespace(t), target: cluster.Namespace(t), web: "127.0.0.1:8080", version: 1}
	w.repository = gittest.Serve(t).Repository(t, "shop", manifests(revision{image: "v1"}))
	program := binary.Path(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600))
	reports := net.JoinHostPort(w.podAddress(251), "8093")
	if len(options) > 0 {
		reports = net.JoinHostPort(w.podAddress(1), "8093") // that of the bridge, with programs
	}
	w.options = agentprocess.Options{
		Binary: program, Kubeconfig: cmp.Or(kubeconfig, cluster.Kubeconfig), Namespace: w.control,
		// One that starts after another was killed does not wait for the end of its Lease.
		Arguments: []string{"--traffic.edges=" + reports, "--traffic.secretFile=" + secret, "--leaderElection.enabled=false"},
	}
	programs.Slipway(t, "the edge", program, []string{"KUBECONFIG=" + cluster.Kubeconfig, "POD_NAMESPACE=" + w.control},
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--providers.kubernetesIngress", "--providers.kubernetesIngress.ingressEndpoint.ip=127.0.0.1", "--entryPoints.web.address="+w.web, "--traffic.address="+reports, "--traffic.secretFile="+secret)
	return w
}

// startAgent starts an agent, which ends with the test.
func (w *world) startAgent(t *testing.T) {
	t.Helper()
	w.agent = agentprocess.Start(t, w.options)
}

// deployed creates the Application and waits for its Pods.
func (w *world) deployed(t *testing.T) {
	t.Helper()
	w.cluster.Apply(t, w.control, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, w.repository.URL(), w.target))
	w.await(t, func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Health.Status != v1alpha1.Healthy {
			return fmt.Errorf("it is %s", describe(app))
		}
		return nil
	})
	w.scale(t, 2)
	programs.Eventually(t, func(ctx context.Context) error {
		if ready, err := w.ready(ctx, "v1"); ready != 2 {
			return fmt.Errorf("%d Pods are ready: %w", ready, err)
		}
		return nil
	})
}

// podAddress is an address of the network of Pods.
func (w *world) podAddress(last byte) string {
	bytes := w.cluster.PodNetwork.Addr().As4()
	bytes[3] = last
	return netip.AddrFrom4(bytes).String()
}

// push commits a revision.
func (w *world) push(t *testing.T, of revision) string {
	t.Helper()
	return w.repository.Commit(t, manifests(of), of.image+of.container)
}

// await waits until the Application is as it should be.
func (w *world) await(t *testing.T, holds func(*v1alpha1.Application) error) *v1alpha1.Application {
	t.Helper()
	return agentprocess.Await(t, agentprocess.Applications(w.cluster.Cluster, w.control), "shop", holds)
}

// describe is the status of an Application in one line.
func describe(app *v1alpha1.Application) string {
	text := fmt.Sprintf("%s at %s, %s", app.Status.Sync.Status, app.Status.Sync.Revision, app.Status.Health.Status)
	for _, one := range app.Status.Resources {
		if one.Kind == "Deployment" && one.Health != nil {
			text += ", " + one.Health.Message
		}
	}
	for _, one := range app.Status.Conditions {
		text += ", " + one.Message
	}
	return text
}

// deployments are those of the namespace of the Application.
func (w *world) deployments() appsclient.DeploymentInterface {
	return w.cluster.Client.AppsV1().Deployments(w.target)
}

// scale sets the number of replicas as a HorizontalPodAutoscaler does.
func (w *world) scale(t *testing.T, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"replicas": %d}}`, replicas)
	must.Get(w.deployments().Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "scale"))(t)
}

// ready is the number of ready Pods of a version.
func (w *world) ready(ctx context.Context, image string) (ready int32, err error) {
	sets, err := w.cluster.Client.AppsV1().ReplicaSets(w.target).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range sets.Items {
		if sets.Items[i].Spec.Template.Spec.Containers[0].Image == "slipway.dev/demo:"+image {
			ready += sets.Items[i].Status.ReadyReplicas
		}
	}
	return ready, nil
}

// share waits until the canary of a Release has a share.
func (w *world) share(t *testing.T, want int32) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourceRelease}
	kubetest.WaitFor(t, w.cluster.Dynamic.Resource(resource).Namespace(w.target), kube.Named("web"), programs.Timeout, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no Release")
		}
		revisions, _, _ := unstructured.NestedSlice(found[0].Object, "spec", "revisions")
		if weight, _ := revisions[1].(map[string]any)["weight"].(int64); weight != int64(want) {
			return fmt.Errorf("the shares are %v, the status %v", revisions, found[0].Object["status"])
		}
		return nil
	})
}

// manifests are what Git has: a plain Deployment with a policy, its Service and its
// Ingress. The steps are short, so that the judge is what a release waits for. The number
// of replicas is not in Git, as with a HorizontalPodAutoscaler.
func manifests(of revision) map[string]string {
	image := "slipway.dev/demo:" + of.image
	if of.program {
		image, of.container = streamsImage+":"+of.image, fmt.Sprintf("env: [{name: VERSION, value: %s}]", of.image)
	}
	return map[string]string{"deploy/shop.yaml": fmt.Sprintf(`apiVersion: slipway.dev/v1alpha1
kind: ReleasePolicy
metadata: {name: quick}
spec: {%s}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: grpc, port: 81, targetPort: 8081, appProtocol: kubernetes.io/h2c}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: slipway
  rules:
  - {host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}
  - {host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 81}}}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {slipway.dev/release: quick}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: %s
        %s
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
`, cmp.Or(of.policy, "steps: [{weight: 10, hold: 12s, requests: 100}, {weight: 50, hold: 2s, requests: 100}]"), host, callHost, image, of.container)}
}
