package preflight_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

// providerCase is one of the eleven: how its nodes look, what address its load
// balancer has, and what a good cluster may still be warned of.
type providerCase struct {
	id          preflight.ProviderID
	requirement string
	node        corev1.Node
	address     corev1.LoadBalancerIngress
	// install is in the fix when there is no address.
	install string
	// warned is the warning of P15 for a good state; empty for none.
	warned string
}

func byProviderID(id string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}, Spec: corev1.NodeSpec{ProviderID: id}}
}

func byLabel(label string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: map[string]string{label: "true"}}}
}

func providerCases() []providerCase {
	ip := corev1.LoadBalancerIngress{IP: frontAddress().String()}
	name := corev1.LoadBalancerIngress{Hostname: testHost}
	const cloud = "controller-v1.1.1/deploy/static/provider/cloud/deploy.yaml"
	return []providerCase{
		{preflight.AWS, "R99", byProviderID("aws:///eu-west-1a/i-0abc"), name, "provider/aws/deploy.yaml", ""},
		{preflight.AKS, "R100", byProviderID("azure:///subscriptions/x"), ip, cloud, ""},
		{preflight.BareMetal, "R101", byProviderID(""), ip, "provider/baremetal/deploy.yaml", ""},
		{preflight.DigitalOcean, "R102", byProviderID("digitalocean://1"), ip, "provider/do/deploy.yaml", ""},
		{preflight.DockerDesktop, "R103", corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "docker-desktop"}}, corev1.LoadBalancerIngress{Hostname: "localhost"}, cloud, "only reachable from this machine"},
		{preflight.Exoscale, "R104", byProviderID("exoscale://1"), ip, "ingress-nginx/main/deploy/static/provider/exoscale/deploy.yaml", ""},
		{preflight.GKE, "R105", byProviderID("gce://project/zone/node"), ip, "cluster-admin-binding", ""},
		{preflight.MicroK8s, "R106", byLabel("microk8s.io/cluster"), ip, "microk8s enable ingress", ""},
		{preflight.MiniKube, "R107", byLabel("minikube.k8s.io/name"), ip, "minikube addons enable ingress", ""},
		{preflight.Oracle, "R108", byProviderID("oci://ocid1.instance.oc1"), ip, cloud, ""},
		{preflight.Scaleway, "R109", byProviderID("scaleway://instance/fr-par-1/1"), ip, "provider/scw/deploy.yaml", ""},
	}
}

// TestProviders: R99, R100, R101, R102, R103, R104, R105, R106, R107, R108, R109:
// NGINX Community at each provider, detected by its nodes, with and without an
// address.
func TestProviders(t *testing.T) {
	for _, tt := range providerCases() {
		t.Run(tt.requirement+" "+string(tt.id), func(t *testing.T) {
			s := newScene(t)
			s.makeNode(&tt.node)
			s.class("k8s.io/ingress-nginx")
			s.workload("Deployment", "registry.k8s.io/ingress-nginx/controller:v1.1.1", "app.kubernetes.io/name: ingress-nginx",
				"        args: [/nginx-ingress-controller, --publish-service=CONTROLLER/front]\n"+balancedService)
			if tt.id == preflight.AWS {
				s.checkAWS(t)
			}
			results := s.run(preflight.ExternalAddress)
			finds(t, results, preflight.ExternalAddress, preflight.Failed, "pending")
			finds(t, results, preflight.ExternalAddress, preflight.Failed, tt.install)
			s.balance("front", tt.address)
			s.started()
			if tt.warned == "" {
				clean(t, s.run())
				return
			}
			finds(t, s.run(preflight.ExternalAddress), preflight.ExternalAddress, preflight.Warned, tt.warned)
		})
	}
}

// checkAWS: R96: the annotation for TCP, which --fix adds.
func (s *scene) checkAWS(t *testing.T) {
	t.Helper()
	found := finds(t, s.run(preflight.TCP), preflight.TCP, preflight.Failed, "aws-load-balancer-backend-protocol=tcp")
	if found.Apply == nil {
		t.Fatal("it cannot be repaired")
	}
	must.Do(t, found.Apply(t.Context()))
	clean(t, s.run(preflight.TCP))
	s.annotate(t, "front", map[string]any{"service.beta.kubernetes.io/aws-load-balancer-backend-protocol": nil})
	finds(t, s.run(preflight.TCP), preflight.TCP, preflight.Failed, "WebSockets")
	s.annotate(t, "front", map[string]any{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"})
	clean(t, s.run(preflight.TCP))
}

func (s *scene) annotate(t *testing.T, service string, annotations map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	must.Do(t, err)
	if _, err := s.cluster.Client.CoreV1().Services(s.controller).Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNodePorts: R101, R106: without a load balancer the nodes have the address: a
// Service on their ports is a warning, a controller on their own ports is fine.
func TestNodePorts(t *testing.T) {
	s := newScene(t)
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
	s.class("k8s.io/ingress-nginx")
	s.workload("DaemonSet", "registry.k8s.io/ingress-nginx/controller:v1.1.1", "app.kubernetes.io/name: ingress-nginx",
		"        args: [/nginx-ingress-controller]\n        ports: [{containerPort: 443, hostPort: 443}]\n")
	clean(t, s.run(preflight.ExternalAddress, preflight.StatusReport))
	s.apply("apiVersion: v1\nkind: Service\nmetadata: {name: nodes}\nspec: {type: NodePort, selector: {part: controller}, ports: [{port: 443}]}\n")
	finds(t, s.run(preflight.ExternalAddress), preflight.ExternalAddress, preflight.Warned, "on a port of the nodes only")
}
