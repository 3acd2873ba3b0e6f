package status

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

func addressOf(texts ...string) []netip.Addr {
	var ips []netip.Addr
	for _, text := range texts {
		ips = append(ips, netip.MustParseAddr(text))
	}
	return ips
}

func testService(spec corev1.ServiceSpec, balanced ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "edge"}, Spec: spec,
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: balanced}},
	}
}

var testNodes = []*snapshot.NodeFacts{
	{Name: "c", Ready: true, External: addressOf("192.0.2.9")},
	{Name: "a", Ready: true, External: addressOf("192.0.2.2", "2001:db8::2"), Internal: addressOf("10.0.0.2")},
	{Name: "b", Ready: false, External: addressOf("192.0.2.3")},
	{Name: "d", Ready: true, External: addressOf("192.0.2.9")},
	{Name: "e", Ready: true, Internal: addressOf("10.0.0.5")},
}

func TestGivenAddresses(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		want    string
		problem string
	}{
		{"nothing", Options{}, "", ""},
		{"ip", Options{IP: "192.0.2.1"}, "192.0.2.1", ""},
		{"ip of version 6", Options{IP: "2001:DB8::1"}, "2001:db8::1", ""},
		{"hostname", Options{Hostname: "Edge.Example.com."}, "edge.example.com", ""},
		{"both are one entry", Options{IP: "192.0.2.1", Hostname: "Edge.example.com."}, "192.0.2.1/edge.example.com", ""},
		{"a name as ip", Options{IP: "edge"}, "", `ingressEndpoint.ip "edge" is not an IP address`},
		{"a scoped ip", Options{IP: "fe80::1%eth0"}, "", "is not an IP address"},
		{"an ip as hostname", Options{Hostname: "192.0.2.1"}, "", `ingressEndpoint.hostname: "192.0.2.1" is not a host name`},
		{"no hostname", Options{Hostname: "a_b", IP: "192.0.2.1"}, "192.0.2.1", "is not a host name"},
		{"the Service comes first", Options{IP: "192.0.2.1", PublishedService: "infra/edge"}, "", "there is no Service infra/edge"},
		{"a Service that is not watched", Options{PublishedService: "infra/edge", Namespaces: []string{"shop"}}, "",
			"the Service infra/edge cannot be read: add its namespace to namespaces"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := addressesOf(&test.options, nil, nil)
			if show(got.addresses) != test.want || !strings.Contains(got.problem, test.problem) || (test.problem == "") != (got.problem == "") {
				t.Errorf("got %q and problem %q, want %q and %q", show(got.addresses), got.problem, test.want, test.problem)
			}
		})
	}
}

func TestServiceAddresses(t *testing.T) {
	ports := []corev1.ServicePort{
		{Port: 443, NodePort: 30443, Protocol: corev1.ProtocolTCP}, {Port: 80, NodePort: 30080},
		{Port: 443, NodePort: 30443, Protocol: corev1.ProtocolUDP},
	}
	for _, test := range []struct {
		name    string
		service *corev1.Service
		noNodes bool
		want    string
		problem string
	}{
		{"load balancer", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			corev1.LoadBalancerIngress{IP: "192.0.2.8"}, corev1.LoadBalancerIngress{Hostname: "lb.example.com"},
			corev1.LoadBalancerIngress{IP: "192.0.2.7", Ports: []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}},
			corev1.LoadBalancerIngress{IP: "192.0.2.8"}, corev1.LoadBalancerIngress{}),
			false, "lb.example.com, 192.0.2.7 80/TCP, 192.0.2.8", ""},
		{"load balancer without an address yet", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}), false, "", ""},
		{"external addresses", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports, ExternalIPs: []string{"192.0.2.6", "192.0.2.5"}}),
			false, "192.0.2.5 80/TCP 443/TCP 443/UDP, 192.0.2.6 80/TCP 443/TCP 443/UDP", ""},
		{"no external addresses", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}), false, "", "has no spec.externalIPs"},
		{"nodes", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports[1:2]}),
			false, "192.0.2.2 30080/TCP, 192.0.2.3 30080/TCP, 192.0.2.9 30080/TCP, 2001:db8::2 30080/TCP", ""},
		{"nodes that are not read", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}), true, "", "unset disableClusterScopeResources"},
		{"external name", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "edge.example.com."}),
			false, "edge.example.com", ""},
		{"external name that is an address", testService(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "192.0.2.1"}),
			false, "", "is not a host name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := &Options{PublishedService: "infra/edge", NoNodes: test.noNodes}
			got := addressesOf(options, test.service, testNodes)
			if show(got.addresses) != test.want || !strings.Contains(got.problem, test.problem) || (test.problem == "") != (got.problem == "") {
				t.Errorf("got %q and problem %q, want %q and %q", show(got.addresses), got.problem, test.want, test.problem)
			}
		})
	}
	got := addressesOf(&Options{PublishedService: "infra/edge"}, testService(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}), nil)
	if !strings.Contains(got.problem, "no node has an ExternalIP") {
		t.Errorf("got problem %q", got.problem)
	}
}

// Replicas see nodes and addresses in any order, and publish the same.
func TestAddressesAreTheSameEverywhere(t *testing.T) {
	options := &Options{PublishedService: "infra/edge"}
	service := testService(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{NodePort: 2}, {NodePort: 1}}})
	var nodes []*snapshot.NodeFacts
	for i := range 100 {
		nodes = append(nodes, &snapshot.NodeFacts{Ready: true, External: addressOf(fmt.Sprintf("192.0.2.%d", i))})
	}
	first := addressesOf(options, service, nodes)
	if len(first.addresses) != addressLimit || !strings.Contains(first.problem, "36 addresses are left out") {
		t.Errorf("got %d addresses and problem %q", len(first.addresses), first.problem)
	}
	for i := range nodes {
		j := (i * 7) % len(nodes)
		nodes[i], nodes[j] = nodes[j], nodes[i]
	}
	service.Spec.Ports[0], service.Spec.Ports[1] = service.Spec.Ports[1], service.Spec.Ports[0]
	if second := addressesOf(options, service, nodes); !sameAddresses(first.addresses, second.addresses) {
		t.Errorf("got %s and %s", show(first.addresses), show(second.addresses))
	}
}
