package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// edgeDeployment is the template of the Deployments of Gateways. No node runs its Pods.
const edgeDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: edge}
spec:
  replicas: 2
  selector: {matchLabels: {app: edge}}
  template:
    metadata: {labels: {app: edge}, annotations: {example.com/checksum: "1"}}
    spec:
      serviceAccountName: slipway-edge
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: edge}}}
      containers: [{name: edge, image: "slipway:1", env: [{name: OTHER, value: kept}]}]
`

// podsOf is the EndpointSlice that the cluster makes of the Pods of a Gateway.
const podsOf = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: []
endpoints: [{addresses: [10.244.120.9], conditions: {ready: true}, nodeName: node-1}]
`

// deploymentOf waits for the Deployment of a Gateway that meets a condition.
func (s *scene) deploymentOf(t *testing.T, gateway string, meets func(*appsv1.Deployment) bool) *appsv1.Deployment {
	t.Helper()
	var found *appsv1.Deployment
	programs.Eventually(t, func(ctx context.Context) error {
		list, err := s.Client.AppsV1().Deployments(home).List(ctx, metav1.ListOptions{LabelSelector: "slipway.dev/gateway-deployments"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if found = &list.Items[i]; found.Annotations["slipway.dev/gateway"] == s.namespace+"/"+gateway && meets(found) {
				return nil
			}
		}
		return fmt.Errorf("no Deployment of %s meets the condition among %d", gateway, len(list.Items))
	})
	return found
}

// TestDeployments: each Gateway has a Deployment of its own in the namespace of the edge,
// which follows that of the edge and goes with the Gateway. Its Pods serve this Gateway
// alone, and it is programmed when one of them is ready.
func TestDeployments(t *testing.T) {
	s := prepare(t, ownCluster(t, "standard"))
	kubeconfig := s.EdgeKubeconfig(t, "gateway-role")
	s.Apply(t, home, string(must.Get(os.ReadFile("../../deploy/rbac/gateway-deployments-role.yaml"))(t)))
	s.Apply(t, home, edgeService+"---\n"+edgeDeployment)
	arguments := []string{"--providers.kubernetesGateway.serviceType=ClusterIP", "--providers.kubernetesGateway.edgeService=" + home + "/edge",
		"--providers.kubernetesGateway.deployment=edge", "--providers.kubernetesGateway.targetPorts=21000-21009",
		"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s", "--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s"}
	s.startEdge(t, kubeconfig, arguments...)
	for name, backend := range map[string]string{"first": "a", "second": "b"} {
		s.Apply(t, s.namespace, fmt.Sprintf(gatewayAndRoute, name, backend))
	}
	always := func(*appsv1.Deployment) bool { return true }
	first, second := s.deploymentOf(t, "first", always), s.deploymentOf(t, "second", always)
	pods := first.Spec.Template
	container := pods.Spec.Containers[0]
	if *first.Spec.Replicas != 2 || container.Image != "slipway:1" || pods.Spec.ServiceAccountName != "slipway-edge" || pods.Annotations["example.com/checksum"] != "1" ||
		len(container.Env) != 2 || container.Env[1].Name != "SLIPWAY_PROVIDERS_KUBERNETESGATEWAY_GATEWAY" || container.Env[1].Value != s.namespace+"/first" {
		t.Errorf("the Pods of the Deployment are %+v", first.Spec)
	}
	if pods.Labels["app"] != "" || pods.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app"] != "" || first.Name == second.Name {
		t.Errorf("the Deployment %s has Pods that the Service of the edge selects: %+v", first.Name, pods)
	}
	// Without a ready Pod the Gateway is not programmed.
	programs.Eventually(t, func(ctx context.Context) error {
		var gateway gatewayv1.Gateway
		if err := s.read(ctx, "gateways", "first", &gateway); err != nil {
			return err
		}
		for _, c := range gateway.Status.Conditions {
			if c.Type == "Programmed" && strings.Contains(c.Message, "no Pod of the Deployment "+home+"/"+first.Name+" is ready") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", gateway.Status.Conditions)
	})

	// A Pod of the first Gateway, with the option that its Deployment has.
	pod := edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr("127.0.0.10"), Kubeconfig: kubeconfig, Namespace: home,
		Arguments: append(arguments, "--providers.kubernetesGateway.gateway="+container.Env[1].Value),
	}.Start(t)
	pod.AwaitReady(t)
	s.Apply(t, home, fmt.Sprintf(podsOf, first.Name))
	s.Apply(t, home, fmt.Sprintf(podsOf, second.Name))
	s.programmed(t, "first")
	s.programmed(t, "second")
	client := newClient(t, nil)
	expect(t, client, s.leads(t, "first", 80)+"/same", http.StatusOK, "a added")
	for _, closed := range []string{strings.TrimPrefix(s.leads(t, "second", 80), "http://"), pod.On(edgeprocess.PlainPort)} {
		conn, err := net.Dial("tcp", closed)
		if err == nil {
			conn.Close()
			t.Errorf("the Pod of the first Gateway listens on %s", closed)
		}
	}

	// A new listener is served by the Pod.
	s.patch(t, "gateways", "first", `{"spec": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "more", "port": 8080, "protocol": "HTTP"}]}}`)
	expect(t, client, s.leads(t, "first", 8080)+"/same", http.StatusOK, "a added")

	// The Deployments follow that of the edge, and go with the Gateway.
	must.Get(s.Client.AppsV1().Deployments(home).Patch(t.Context(), "edge", types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "slipway:2"}]`), metav1.PatchOptions{}))(t)
	s.deploymentOf(t, "first", func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.Containers[0].Image == "slipway:2" })
	must.Do(t, s.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource("gateways")).Namespace(s.namespace).Delete(t.Context(), "second", metav1.DeleteOptions{}))
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := s.Client.AppsV1().Deployments(home).Get(ctx, second.Name, metav1.GetOptions{})
		_, problem := s.Client.CoreV1().Services(home).Get(ctx, second.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(problem) {
			return errors.New("the Deployment of the Gateway that was deleted is there: " + strconv.FormatBool(err == nil))
		}
		return nil
	})
	s.deploymentOf(t, "first", always)
}
