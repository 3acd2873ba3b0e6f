package status

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestServiceOfGateway: which Gateways have a Service, its name, which is a label of DNS
// also for a long one, and the family of its address.
func TestServiceOfGateway(t *testing.T) {
	long := strings.Repeat("long.", 20) + "name"
	for _, c := range []struct {
		gateway, address string
		services         bool
		name             string
		family           discoveryv1.AddressType
	}{
		{"public", "192.0.2.1", true, "slipway-public", discoveryv1.AddressTypeIPv4},
		{"public", "2001:db8::1", true, "slipway-public", discoveryv1.AddressTypeIPv6},
		{long, "192.0.2.1", true, "slipway-", discoveryv1.AddressTypeIPv4},
		{"public", "192.0.2.1", false, "", ""},
		{"public", "127.0.0.1", true, "", ""},
		{"public", "", true, "", ""},
	} {
		w := NewGatewayWriter(nil, c.services, nil)
		ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: c.gateway}
		status := &gatewayv1.GatewayStatus{}
		if c.address != "" {
			status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: c.address}}
		}
		object := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: c.gateway, UID: "1", Generation: 1}}
		w.Set(ref, object, engine.GatewayStatus{Gateway: status})
		wanted, missing := w.missingService(ref)
		if missing != (c.name != "") {
			t.Errorf("%s at %q: a Service is missing: %t", c.gateway, c.address, missing)
			continue
		}
		if !missing {
			continue
		}
		slice := wanted.slice(gateway.ServiceName(c.gateway))
		if *slice.AddressType != c.family || !strings.HasPrefix(*slice.Name, c.name) || len(*slice.Name) > 63 || strings.Contains(*slice.Name, ".") {
			t.Errorf("%s at %s: the EndpointSlice %s has the type %s", c.gateway, c.address, *slice.Name, *slice.AddressType)
		}
		w.published[ref] = wanted
		if _, missing := w.missingService(ref); missing {
			t.Errorf("%s: the Service is written again", c.gateway)
		}
		changed := object.DeepCopy()
		changed.Generation = 2
		w.Set(ref, changed, engine.GatewayStatus{Gateway: status})
		if _, missing := w.missingService(ref); !missing {
			t.Errorf("%s: the Service does not follow the Gateway", c.gateway)
		}
	}
}

// TestServiceThatLeads: a Service is written for a Gateway with target ports, without one of
// the pool, and again if that of the cluster is another one; and what is in it.
func TestServiceThatLeads(t *testing.T) {
	w := NewGatewayWriter(nil, true, nil)
	ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: "public"}
	object := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", UID: "1", Generation: 1}}
	missing := func(leads gateway.Service) (gatewayService, bool) {
		w.Set(ref, object, engine.GatewayStatus{Gateway: &gatewayv1.GatewayStatus{}, Service: &leads})
		return w.missingService(ref)
	}
	leads := gateway.Service{Type: "LoadBalancer", LoadBalancerIP: "203.0.113.7", Endpoints: []gateway.Endpoint{{Address: "2001:db8::1", Node: "node-1", Zone: "a"}}}
	if _, write := missing(leads); write {
		t.Error("a Service without ports is written")
	}
	leads.Ports = []gateway.ServicePort{{Port: 53, Target: 20001, UDP: true}, {Port: 80, Target: 20000}}
	wanted, write := missing(leads)
	if !write {
		t.Fatal("the Service is not written")
	}
	w.published[ref] = wanted
	if _, write := missing(leads); !write {
		t.Error("a Service that the cluster does not have is not written again")
	}
	leads.Current = true
	if _, write := missing(leads); write {
		t.Error("the Service of the cluster is written again")
	}
	service, slice := wanted.service("slipway-public"), wanted.slice("slipway-public")
	if *service.Spec.Type != "LoadBalancer" || *service.Spec.ExternalTrafficPolicy != "Local" || *service.Spec.LoadBalancerIP != "203.0.113.7" || service.Spec.ClusterIP != nil || len(service.Spec.Ports) != 2 ||
		*service.Spec.Ports[0].Name != "udp-53" || *service.Spec.Ports[0].Protocol != "UDP" || service.Spec.Ports[0].TargetPort.IntVal != 20001 || *service.Spec.Ports[1].Port != 80 {
		t.Errorf("the Service is %+v", service.Spec)
	}
	if *slice.AddressType != discoveryv1.AddressTypeIPv6 || len(slice.Endpoints) != 1 || *slice.Endpoints[0].NodeName != "node-1" || *slice.Endpoints[0].Zone != "a" ||
		!*slice.Endpoints[0].Conditions.Ready || len(slice.Ports) != 2 || *slice.Ports[1].Name != "tcp-80" || *slice.Ports[1].Port != 20000 {
		t.Errorf("the EndpointSlice is %+v", slice)
	}
}
