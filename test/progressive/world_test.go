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

// The images of the programs of testdata.
const (
	streamsImage = "registry.test/streams"
	noisyImage   = "registry.test/noisy"
)

// quick is the ReleasePolicy of most releases. Its steps are short, so that the judge is what
// a release waits for.
const quick = "quick"

// revision is a version of the demo, or of the program of an image.
type revision struct {
	image, program string
	// container has options of the container, and variables further ones of a program's environment.
	container, variables string
	// policy has the steps of the policy, if they are not the usual ones, and release the
	// value of the annotation, if it is not the policy.
	policy, release string
}

// world is a cluster with an agent, an edge, and an Application of a Deployment
// that is released.
type world struct {
	cluster         *kubetest.Cluster
	control, target string
	// name is that of the Application, of its repository, and of its host without the domain.
	name       string
	git        *gittest.Server
	repository *gittest.Repository
	options    agentprocess.Options
	agent      *agentprocess.Agent
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
	w := &world{cluster: cluster, control: cluster.Namespace(t), target: cluster.Namespace(t), name: "shop", git: gittest.Serve(t), web: "127.0.0.1:8080", version: 1}
	w.repository = w.git.Repository(t, w.name, w.manifests(revision{image: "v1"}))
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

// beside is another Application in the same cluster, with its own namespace, repository and
// host. Agent and edge are the same.
func (w *world) beside(t *testing.T, name string, of revision) *world {
	t.Helper()
	other := *w
	other.name, other.target = name, w.cluster.Namespace(t)
	other.repository = w.git.Repository(t, name, other.manifests(of))
	return &other
}

// host is that of requests, and callHost that of calls of gRPC.
func (w *world) host() string     { return w.name + ".example.com" }
func (w *world) callHost() string { return w.name + "-calls.example.com" }

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
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, w.name, w.repository.URL(), w.target))
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
	return w.repository.Commit(t, w.manifests(of), of.image+of.container+of.variables)
}

// await waits until the Application is as it should be.
func (w *world) await(t *testing.T, holds func(*v1alpha1.Application) error) *v1alpha1.Application {
	t.Helper()
	return agentprocess.Await(t, agentprocess.Applications(w.cluster.Cluster, w.control), w.name, holds)
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
		if strings.HasSuffix(sets.Items[i].Spec.Template.Spec.Containers[0].Image, ":"+image) {
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
// Ingress. The number of replicas is not in Git, as with a HorizontalPodAutoscaler.
func (w *world) manifests(of revision) map[string]string {
	image := "slipway.dev/demo:" + of.image
	if of.program != "" {
		image = of.program + ":" + of.image
		of.container = fmt.Sprintf("env: [{name: VERSION, value: %s}, {name: APPLICATION, value: %s}%s]", of.image, w.name, of.variables)
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
metadata: {name: web, annotations: {slipway.dev/release: %s}}
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
`, cmp.Or(of.policy, "steps: [{weight: 10, hold: 12s, requests: 100}, {weight: 50, hold: 2s, requests: 100}]"),
		w.host(), w.callHost(), cmp.Or(of.release, quick), image, of.container)}
}
