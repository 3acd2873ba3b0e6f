package preflight_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

const patience = 60 * time.Second

// scene is a cluster with a controller in a namespace of its own, a load balancer
// with a certificate before it, and DNS.
type scene struct {
	t          testing.TB
	cluster    *kubetest.Cluster
	controller string // namespace
	node       string
	world      preflight.World
	options    preflight.Options
}

// newScene is one where everything outside of the cluster is good.
func newScene(t testing.TB) *scene {
	t.Helper()
	cluster := kubetest.Shared(t)
	authority := pkitest.NewAuthority(t)
	s := &scene{t: t, cluster: cluster, controller: cluster.Namespace(t)}
	runtime := cluster.Namespace(t)
	class := strings.TrimPrefix(runtime, "ns-")
	s.world = preflight.World{
		Cluster: cluster.Cluster, Roots: authority.Pool, Resolver: serveDNS(t, map[string]netip.Addr{testHost + ".": frontAddress()}),
	}
	s.options = preflight.Options{
		Stage: preflight.Before, ControllerNamespace: s.controller, StatusWait: time.Second,
		Settings: mode.Settings{Runtime: testRuntime, Namespace: runtime, Ingress: mode.IngressSettings{Enabled: true, Hosts: []string{testHost}, ClassName: class}},
	}
	serveTLS(t, issued(t, authority, testHost, 60*24*time.Hour), router(testRuntime))
	return s
}

// makeNode makes a Node object, where the Pods of the controller are.
func (s *scene) makeNode(node *corev1.Node) {
	s.t.Helper()
	nodes := s.cluster.Client.CoreV1().Nodes()
	made, err := nodes.Create(s.t.Context(), node, metav1.CreateOptions{})
	must.Do(s.t, err)
	s.node = made.Name
	s.t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.t.Error(err)
		}
	})
}

// apply applies manifests of the controller. CONTROLLER, RUNTIME and CLASS stand
// for the names of this test.
func (s *scene) apply(manifests string) {
	s.t.Helper()
	s.cluster.Apply(s.t, s.controller, s.fill(manifests))
}

func (s *scene) fill(text string) string {
	return strings.NewReplacer("CONTROLLER", s.controller, "RUNTIME", s.options.Settings.Namespace, "CLASS", s.options.Settings.Ingress.ClassName, "HOST", testHost).Replace(text)
}

// class makes the IngressClass.
func (s *scene) class(controller string) {
	s.t.Helper()
	name := s.options.Settings.Ingress.ClassName
	s.apply(fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s}\nspec: {controller: %s}\n", name, controller))
	s.t.Cleanup(func() {
		_ = s.cluster.Client.NetworkingV1().IngressClasses().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// workload is a Deployment of a controller, on the scene's node.
func (s *scene) workload(kind, image string, labels, extra string) {
	s.t.Helper()
	replicas := "replicas: 1"
	if kind == "DaemonSet" {
		replicas = "updateStrategy: {type: OnDelete}"
	}
	s.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: controller, labels: {%s}}
spec:
  %s
  selector: {matchLabels: {part: controller}}
  template:
    metadata: {labels: {part: controller, %s}}
    spec:
      nodeName: %s
      tolerations: [{operator: Exists}]
      containers:
      - name: controller
        image: %s
`, kind, labels, replicas, labels, s.node, image) + extra)
}

// started does what the kubelet of the scene's node would: the Pods are ready.
func (s *scene) started() {
	s.t.Helper()
	pods := s.cluster.Client.CoreV1().Pods(s.controller)
	found := kubetest.WaitFor(s.t, pods, metav1.ListOptions{}, patience, func(all []*corev1.Pod) error {
		if len(all) == 0 {
			return fmt.Errorf("there is no Pod")
		}
		return nil
	})
	for _, pod := range found {
		status, err := json.Marshal(map[string]any{"status": map[string]any{
			"phase": "Running", "conditions": []map[string]any{{"type": "Ready", "status": "True", "lastTransitionTime": metav1.Now().Add(-time.Minute).Format(time.RFC3339)}},
		}})
		must.Do(s.t, err)
		if _, err := pods.Patch(s.t.Context(), pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			s.t.Fatal(err)
		}
	}
	kubetest.WaitFor(s.t, s.cluster.Client.AppsV1().Deployments(s.controller), metav1.ListOptions{}, patience, func(all []*appsv1.Deployment) error {
		for _, one := range all {
			if one.Status.AvailableReplicas == 0 {
				return fmt.Errorf("%s is not available", one.Name)
			}
		}
		return nil
	})
}

// balance writes what a cloud writes: the address of a load balancer.
func (s *scene) balance(service string, to corev1.LoadBalancerIngress) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []corev1.LoadBalancerIngress{to}}}})
	must.Do(s.t, err)
	if _, err := s.cluster.Client.CoreV1().Services(s.controller).Patch(s.t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		s.t.Fatal(err)
	}
}

// installed makes the Ingress of the runtime, with the address that a controller
// would write if it is not empty.
func (s *scene) installed(to corev1.LoadBalancerIngress) {
	s.t.Helper()
	s.options.Stage = preflight.After
	text, err := mode.YAML(mode.Objects(s.options.Settings, mode.Ingress)...)
	must.Do(s.t, err)
	s.cluster.Apply(s.t, s.options.Settings.Namespace, text)
	if to.IP == "" && to.Hostname == "" {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []corev1.LoadBalancerIngress{to}}}})
	must.Do(s.t, err)
	ingresses := s.cluster.Client.NetworkingV1().Ingresses(s.options.Settings.Namespace)
	if _, err := ingresses.Patch(s.t.Context(), mode.RouterService, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		s.t.Fatal(err)
	}
}

// run runs the checks that have to do with the controller, unless some are named.
func (s *scene) run(only ...preflight.Code) []preflight.Result {
	s.t.Helper()
	s.options.Only = only
	if len(only) == 0 {
		s.options.Only = []preflight.Code{
			preflight.IngressClass, preflight.ExternalAddress, preflight.TLSCertificate, preflight.TCP,
			preflight.StatusReport, preflight.URLResponse, preflight.RouteResources, preflight.DNS,
		}
	}
	return preflight.Run(s.t.Context(), s.world, s.options)
}

// clean fails when a result is worse than it should be.
func clean(t testing.TB, results []preflight.Result) {
	t.Helper()
	for _, result := range results {
		if result.State == preflight.Failed || result.State == preflight.Warned {
			t.Errorf("%s", shown(result))
		}
		if result.Looked == "" && result.State != preflight.Skipped {
			t.Errorf("%s does not say what it looked at", result.Code)
		}
	}
}

// finds fails unless a check ends in the state with a finding that contains
// something, and gives the finding.
func finds(t testing.TB, results []preflight.Result, code preflight.Code, state preflight.State, want string) preflight.Finding {
	t.Helper()
	for _, result := range results {
		if result.Code != code {
			continue
		}
		if result.State != state {
			t.Errorf("it is %s and not %s", shown(result), state)
		}
		for _, finding := range result.Findings {
			if strings.Contains(finding.Subject+" "+finding.Message+" "+finding.Fix, want) {
				return finding
			}
		}
		t.Errorf("no finding has %q: %s", want, shown(result))
		return preflight.Finding{}
	}
	t.Errorf("%s did not run", code)
	return preflight.Finding{}
}

func shown(result preflight.Result) string {
	text := fmt.Sprintf("%s %s %s (%s) %s", result.Code, result.Name, result.State, result.Looked, result.Message)
	for _, finding := range result.Findings {
		text += fmt.Sprintf("\n  %s %s: %s\n    fix: %s", finding.Severity, finding.Subject, finding.Message, finding.Fix)
	}
	return text
}
