package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// podAddress is the address of the edge's Pod. The edge listens on all addresses for the
// target ports.
const podAddress = "10.244.120.9"

// edgeService has the Pods of the edge, of which one is ready.
const edgeService = `apiVersion: v1
kind: Service
metadata: {name: edge}
spec: {ports: [{name: web, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: edge, labels: {kubernetes.io/service-name: edge}}
addressType: IPv4
ports: [{name: web, port: 8080}]
endpoints:
- {addresses: [10.244.120.9], conditions: {ready: true}, nodeName: node-1}
- {addresses: [10.244.120.10], conditions: {ready: false}}
`

// leads waits until the Service of a Gateway leads to the edge, and returns the URL of a port
// at the Pod.
func (s *scene) leads(t *testing.T, gateway string, port int32) string {
	t.Helper()
	var url string
	programs.Eventually(t, func(ctx context.Context) error {
		service, err := s.Client.CoreV1().Services(s.namespace).Get(ctx, "slipway-"+gateway, metav1.GetOptions{})
		if err != nil {
			return err
		}
		slice, err := s.Client.DiscoveryV1().EndpointSlices(s.namespace).Get(ctx, "slipway-"+gateway, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != podAddress || *slice.Endpoints[0].NodeName != "node-1" {
			return fmt.Errorf("the endpoints are %+v", slice.Endpoints)
		}
		for _, of := range service.Spec.Ports {
			for _, target := range slice.Ports {
				if of.Port == port && *target.Name == of.Name && *target.Port == of.TargetPort.IntVal && *target.Protocol == of.Protocol {
					url = "http://" + net.JoinHostPort(podAddress, strconv.Itoa(int(*target.Port)))
					return nil
				}
			}
		}
		return fmt.Errorf("port %d is not among %+v and %+v", port, service.Spec.Ports, slice.Ports)
	})
	return url
}

// TestServices: in a cluster each Gateway has a Service, whose address is that of the
// Gateway and which leads to target ports of the edge's Pods. They stay while other
// listeners come, Services are changed by a tenant, and the edge restarts; and the ports of a
// namespace are limited.
func TestServices(t *testing.T) {
	s := prepare(t, shared(t))
	kubeconfig := s.EdgeKubeconfig(t, "gateway-role")
	s.Apply(t, home, edgeService)
	arguments := []string{"--providers.kubernetesGateway.serviceType=ClusterIP", "--providers.kubernetesGateway.edgeService=" + home + "/edge",
		"--providers.kubernetesGateway.targetPortsPerNamespace=3", "--providers.kubernetesGateway.targetPorts=21000-21009",
		"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s", "--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s"}
	edge := s.startEdge(t, kubeconfig, arguments...)
	client := newClient(t, nil)
	for name, backend := range map[string]string{"first": "a", "second": "b"} {
		s.Apply(t, s.namespace, fmt.Sprintf(gatewayAndRoute, name, backend))
	}
	first, second := s.programmed(t, "first"), s.leads(t, "second", 80)
	s.programmed(t, "second")
	service := must.Get(s.Client.CoreV1().Services(s.namespace).Get(t.Context(), "slipway-first", metav1.GetOptions{}))(t)
	if first.Status.Addresses[0].Value != service.Spec.ClusterIP || service.Spec.Type != corev1.ServiceTypeClusterIP || service.Labels[gatewayv1.GatewayNameLabelKey] != "first" {
		t.Errorf("the Gateway has %+v, and its Service is %+v", first.Status.Addresses, service)
	}
	at := s.leads(t, "first", 80)
	expect(t, client, at+"/same", http.StatusOK, "a added")
	expect(t, client, second+"/same", http.StatusOK, "b added")

	// A new listener gets a port of its own, and does not touch the connections of others.
	s.patch(t, "gateways", "first", `{"spec": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "more", "port": 8080, "protocol": "HTTP"}]}}`)
	expect(t, client, s.leads(t, "first", 8080)+"/same", http.StatusOK, "a added")
	s.programmed(t, "first")
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	if status, _, err := get(ctx, client, at+"/same"); err != nil || status != http.StatusOK || !reused || s.leads(t, "first", 80) != at {
		t.Errorf("status %d, error %v, on the old connection: %t", status, err, reused)
	}

	// A tenant who points its Service to the port of another Gateway gets nothing of that, and
	// one that is changed or deleted comes back.
	other := must.Get(strconv.Atoi(second[len(second)-5:]))(t)
	must.Get(s.Client.CoreV1().Services(s.namespace).Patch(t.Context(), "slipway-first", types.JSONPatchType,
		fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/ports/0/targetPort", "value": %d}]`, other), metav1.PatchOptions{}))(t)
	must.Do(t, s.Client.DiscoveryV1().EndpointSlices(s.namespace).Delete(t.Context(), "slipway-second", metav1.DeleteOptions{}))
	must.Do(t, s.Client.CoreV1().Services(s.namespace).Delete(t.Context(), "slipway-second", metav1.DeleteOptions{}))
	programs.Eventually(t, func(context.Context) error {
		if got := s.leads(t, "first", 80); got != at {
			return fmt.Errorf("the Service leads to %s, and not to %s", got, at)
		}
		return nil
	})
	if got := s.leads(t, "second", 80); got != second {
		t.Errorf("the Service that came back leads to %s, and not to %s", got, second)
	}
	expect(t, client, at+"/same", http.StatusOK, "a added")
	expect(t, client, second+"/same", http.StatusOK, "b added")

	// The namespace has three ports, and gets no other one until one becomes free.
	s.Apply(t, s.namespace, fmt.Sprintf(gatewayAndRoute, "third", "b"))
	s.starved(t, "third")
	edge.Stop(t)
	edge = s.startEdge(t, kubeconfig, arguments...)
	expect(t, client, at+"/same", http.StatusOK, "a added")
	expect(t, client, second+"/same", http.StatusOK, "b added")
	must.Do(t, s.in("gateways").Delete(t.Context(), "second", metav1.DeleteOptions{}))
	s.programmed(t, "third")
	if third := s.leads(t, "third", 80); third == second || third == at {
		t.Errorf("the third Gateway has the port of another one: %s", third)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		if _, _, err := get(ctx, newClient(t, nil), second+"/same"); err == nil {
			return errors.New("the port of a Gateway that is gone is open")
		}
		return nil
	})
	must.Do(t, edge.Alive())
}

// starved waits until a Gateway is not programmed because its namespace has too many ports.
func (s *scene) starved(t *testing.T, name string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		var gateway gatewayv1.Gateway
		if err := s.read(ctx, "gateways", name, &gateway); err != nil {
			return err
		}
		for _, c := range gateway.Status.Conditions {
			if c.Type == "Programmed" && c.Status == metav1.ConditionFalse && c.Reason == "NoResources" {
				return nil
			}
		}
		return fmt.Errorf("the Gateway %s has %+v", name, gateway.Status.Conditions)
	})
}
