package gateway_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// replica is an engine with its table, and the Gateways as it has last seen them.
type replica struct {
	t        *testing.T
	facts    *snapshot.Snapshot
	engine   *engine.Engine
	table    *route.Index
	gateways map[string]*gatewayv1.Gateway
}

func newReplica(t *testing.T, options resolve.GatewayOptions) *replica {
	facts := snapshot.New()
	r := &replica{t: t, facts: facts, engine: engine.New(facts, resolve.Options{Gateways: options}), table: route.NewIndex(), gateways: map[string]*gatewayv1.Gateway{}}
	r.update(facts.Put(&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	}))
	return r
}

func (r *replica) update(refs []snapshot.Ref) {
	result := r.engine.Update(refs)
	r.table.Apply(r.table.Fit(&result.Change))
	r.engine.NoteListeners(&result.Change, nil)
}

// put is a Gateway of namespace/name with ports; a port with /udp is one of UDP.
func (r *replica) put(named string, age int64, ports ...string) {
	namespace, name, _ := strings.Cut(named, "/")
	object := &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1", CreationTimestamp: metav1.Unix(age, 0), Generation: 1},
		Spec:       gatewayv1.GatewaySpec{GatewayClassName: "slipway"},
	}
	if before := r.gateways[named]; before != nil {
		object.Generation, object.Status = before.Generation+1, before.Status
	}
	for i, port := range ports {
		number, udp := strings.CutSuffix(port, "/udp")
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(fmt.Sprintf("l%d", i)), Protocol: gatewayv1.HTTPProtocolType}
		if udp {
			l.Protocol = gatewayv1.UDPProtocolType
		}
		fmt.Sscan(number, &l.Port)
		object.Spec.Listeners = append(object.Spec.Listeners, l)
	}
	r.gateways[named] = object
	r.update(r.facts.Put(object))
}

// status is what the leader would write.
func (r *replica) status(named string) gatewayv1.GatewayStatus {
	r.t.Helper()
	namespace, name, _ := strings.Cut(named, "/")
	wanted := r.engine.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: namespace, Name: name})
	if wanted.Gateway == nil {
		r.t.Fatalf("the Gateway %s is not ours", named)
	}
	return *wanted.Gateway
}

// see makes a replica read a Gateway with a status that was written.
func (r *replica) see(named string, status gatewayv1.GatewayStatus) {
	object := r.gateways[named].DeepCopy()
	object.Status = status
	r.gateways[named] = object
	r.update(r.facts.Put(object))
}

// listens returns the listeners of the table.
func (r *replica) listens() string {
	var lines []string
	for _, l := range r.table.Table().Listeners {
		lines = append(lines, fmt.Sprintf("%s=%s", l.ID, l.Address))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// programmed returns the reason of the condition Programmed, and the text of the target ports.
func (r *replica) programmed(named string) (reason, targets string) {
	for _, c := range r.status(named).Conditions {
		switch c.Type {
		case "Programmed":
			reason = c.Reason
		case snapshot.TargetPortsCondition:
			targets = c.Message
		}
	}
	return reason, targets
}

func (r *replica) require(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func serviceOptions(limit int) resolve.GatewayOptions {
	return resolve.GatewayOptions{ServiceType: "ClusterIP", FirstTarget: 20000, LastTarget: 20003, EdgeService: "slipway/edge", TargetsPerNamespace: limit}
}

// TestTargets: a port is listened on when its target is in the status of its Gateway, and not
// before; the status of one replica decides for all; targets stay while listeners come and go.
func TestTargets(t *testing.T) {
	leader, other := newReplica(t, serviceOptions(0)), newReplica(t, serviceOptions(0))
	for _, r := range []*replica{leader, other} {
		r.put("a/one", 1, "80", "53/udp")
		r.require("before the status", r.listens(), "")
	}
	other.put("b/two", 2, "80")
	leader.put("b/two", 2, "80")
	reason, targets := leader.programmed("a/one")
	r := leader
	r.require("reason", reason, "Pending")
	r.require("targets", targets, "53/udp=20000 80=20001")
	for _, r := range []*replica{leader, other} {
		r.see("b/two", leader.status("b/two"))
		r.see("a/one", leader.status("a/one"))
		r.require("listeners", r.listens(), "a/one:53/udp=0.0.0.0:20000 a/one:80=0.0.0.0:20001 b/two:80=0.0.0.0:20002")
	}
	leader.put("a/one", 1, "80", "81")
	_, targets = leader.programmed("a/one")
	r.require("after a change", targets, "80=20001 81=20003")
	r.require("listeners", r.listens(), "a/one:80=0.0.0.0:20001 b/two:80=0.0.0.0:20002")
	leader.see("a/one", leader.status("a/one"))
	r.require("listeners", r.listens(), "a/one:80=0.0.0.0:20001 a/one:81=0.0.0.0:20003 b/two:80=0.0.0.0:20002")

	// A target that two have is that of the older one, whatever comes first.
	for _, order := range [][]string{{"a/one", "b/two"}, {"b/two", "a/one"}} {
		r := newReplica(t, serviceOptions(0))
		for _, named := range order {
			r.put(named, map[string]int64{"a/one": 1, "b/two": 2}[named], "80")
			r.see(named, gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: snapshot.TargetPortsCondition, Message: "80=20002"}}})
		}
		r.require("of two", r.listens(), "a/one:80=0.0.0.0:20002")
		if _, targets := r.programmed("b/two"); targets == "80=20002" || targets == "" {
			t.Errorf("the younger one has %q", targets)
		}
	}
	// A target in a status is that of its Gateway, also beside an older one to which it was
	// proposed: other replicas listen on it.
	late := newReplica(t, serviceOptions(0))
	late.put("a/one", 1, "80")
	late.put("b/two", 2, "80")
	late.see("b/two", gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: snapshot.TargetPortsCondition, Message: "80=20000"}}})
	late.require("of the one with a status", late.listens(), "b/two:80=0.0.0.0:20000")
	if _, targets := late.programmed("a/one"); targets == "80=20000" || targets == "" {
		t.Errorf("the one without a status has %q", targets)
	}
	// Ports outside of the range are not listened on.
	for _, message := range []string{"80=19999", "80=20004", "80=x", "80", "0=20000"} {
		r := newReplica(t, serviceOptions(0))
		r.put("a/one", 1, "80")
		r.see("a/one", gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: snapshot.TargetPortsCondition, Message: message}}})
		r.require(message, r.listens(), "")
	}
}

// TestTargetsRunOut: the range and the limit of a namespace are kept, and a Gateway that waits gets what
// others give up.
func TestTargetsRunOut(t *testing.T) {
	r := newReplica(t, serviceOptions(3))
	settle := func(names ...string) {
		for _, name := range names {
			r.see(name, r.status(name))
		}
	}
	r.put("a/one", 1, "80", "81", "82")
	r.put("a/two", 2, "80")
	settle("a/one", "a/two")
	reason, targets := r.programmed("a/two")
	r.require("above the limit", reason+" "+targets, "NoResources ")
	r.put("b/one", 3, "80")
	r.put("b/two", 4, "80")
	settle("b/one", "b/two")
	reason, targets = r.programmed("b/two")
	r.require("without a free target", reason+" "+targets, "NoResources ")
	r.put("a/one", 1, "80")
	_, first := r.programmed("a/two")
	_, second := r.programmed("b/two")
	if first == "" || second == "" || first == second {
		t.Errorf("after ports became free: %q and %q", first, second)
	}
	r.update(r.facts.Delete(snapshot.Gateway, "b", "one"))
	settle("a/one", "a/two", "b/two")
	if got := len(r.table.Table().Listeners); got != 3 {
		t.Errorf("%d listeners: %s", got, r.listens())
	}
}

// TestTargetsOfConflicts: a port to which no traffic can come has no target, and a port that
// waits for its status does not hide that another one gets none.
func TestTargetsOfConflicts(t *testing.T) {
	r := newReplica(t, serviceOptions(0))
	r.put("a/one", 1, "80", "80", "81")
	_, targets := r.programmed("a/one")
	r.require("beside a conflict", targets, "81=20000")
	limited := newReplica(t, serviceOptions(1))
	limited.put("a/one", 1, "81")
	limited.put("a/one", 1, "80", "81")
	reason, targets := limited.programmed("a/one")
	limited.require("at the limit", reason+" "+targets, "NoResources 81=20000")
}

// TestService: what the Service of a Gateway leads to, and the addresses that it gives the
// Gateway.
func TestService(t *testing.T) {
	ready, not, node := true, false, "node-1"
	slice := func(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "slipway", Name: string(family), Labels: map[string]string{discoveryv1.LabelServiceName: "edge"}},
			AddressType: family, Endpoints: endpoints,
		}
	}
	pods := []*discoveryv1.EndpointSlice{
		slice(discoveryv1.AddressTypeIPv4,
			discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}},
			discoveryv1.Endpoint{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &not}}),
		slice(discoveryv1.AddressTypeIPv6, discoveryv1.Endpoint{Addresses: []string{"2001:db8::1"}}),
		slice(discoveryv1.AddressTypeFQDN, discoveryv1.Endpoint{Addresses: []string{"pod.example"}}),
	}
	balanced := corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}, {Hostname: "lb.example"}}}
	for _, c := range []struct {
		name, kind, requested string
		pods                  []*discoveryv1.EndpointSlice
		service               corev1.Service
		reason, addresses     string
		endpoints             string
	}{
		{name: "cluster", kind: "ClusterIP", pods: pods, service: corev1.Service{Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9"}},
			reason: "Programmed", addresses: "10.96.0.9", endpoints: "[{10.0.0.1  } {10.0.0.2 node-1 }]"},
		{name: "IPv6", kind: "NodePort", pods: pods[1:], service: corev1.Service{Spec: corev1.ServiceSpec{Type: "NodePort", ClusterIP: "2001:db8::9"}},
			reason: "Programmed", addresses: "2001:db8::9", endpoints: "[{2001:db8::1  }]"},
		{name: "balancer", kind: "LoadBalancer", requested: "203.0.113.7",
			service: corev1.Service{Spec: corev1.ServiceSpec{Type: "LoadBalancer", ClusterIP: "10.96.0.9"}, Status: corev1.ServiceStatus{LoadBalancer: balanced}},
			reason:  "Programmed", addresses: "203.0.113.7 lb.example", endpoints: "[]"},
		{name: "balancer without an address", kind: "LoadBalancer", service: corev1.Service{Spec: corev1.ServiceSpec{Type: "LoadBalancer", ClusterIP: "10.96.0.9"}},
			reason: "AddressNotAssigned", endpoints: "[]"},
		{name: "headless", kind: "ClusterIP", service: corev1.Service{Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "None"}}, reason: "AddressNotAssigned", endpoints: "[]"},
		{name: "other type", kind: "LoadBalancer", service: corev1.Service{Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9"}}, reason: "AddressNotAssigned", endpoints: "[]"},
		{name: "of the tenant", kind: "ClusterIP", service: corev1.Service{Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9", Selector: map[string]string{"app": "x"}}},
			reason: "AddressNotAssigned", endpoints: "[]"},
		{name: "requested", kind: "ClusterIP", requested: "10.96.0.9", reason: "AddressNotUsable", endpoints: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := serviceOptions(0)
			options.ServiceType = c.kind
			r := newReplica(t, options)
			for _, pod := range c.pods {
				r.update(r.facts.Put(pod))
			}
			r.put("a/one", 1, "80", "53/udp")
			if c.requested != "" {
				requesting := r.gateways["a/one"].DeepCopy()
				requesting.Generation++
				requesting.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Value: c.requested}}
				r.gateways["a/one"] = requesting
				r.update(r.facts.Put(requesting))
			}
			r.see("a/one", r.status("a/one"))
			c.service.Namespace, c.service.Name = "a", "slipway-one"
			r.update(r.facts.Put(&c.service))
			status := r.status("a/one")
			reason, _ := r.programmed("a/one")
			addresses := ""
			for _, address := range status.Addresses {
				addresses += address.Value + " "
			}
			r.require("reason", reason, c.reason)
			r.require("addresses", strings.TrimSpace(addresses), c.addresses)
			service, endpoints := r.engine.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: "a", Name: "one"}).Service, "none"
			if service != nil {
				endpoints = fmt.Sprint(service.Endpoints)
				names := map[string]uint16{}
				for _, port := range service.Ports {
					names[port.Name()+" "+string(port.Protocol())] = port.Target
				}
				if !maps.Equal(names, map[string]uint16{"udp-53 UDP": 20000, "tcp-80 TCP": 20001}) || service.LoadBalancerIP != c.requested {
					t.Errorf("the Service is %+v", service)
				}
			}
			r.require("endpoints", endpoints, c.endpoints)
		})
	}
}

// TestServiceCurrent: the Service of a Gateway is written again unless the cluster has it and
// its EndpointSlice. A slice of another name, which any tenant of the namespace can write,
// does not stand for it.
func TestServiceCurrent(t *testing.T) {
	r := newReplica(t, serviceOptions(0))
	r.update(r.facts.Put(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "slipway", Name: "pods", Labels: map[string]string{discoveryv1.LabelServiceName: "edge"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}))
	r.put("a/one", 1, "80")
	r.see("a/one", r.status("a/one"))
	current := func() bool {
		return r.engine.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: "a", Name: "one"}).Service.Current
	}
	name, port, protocol := "tcp-80", int32(20000), corev1.ProtocolTCP
	r.update(r.facts.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "slipway-one"},
		Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{
			{Name: name, Port: 80, TargetPort: intstr.FromInt32(port), Protocol: protocol},
		}},
	}))
	for i, slice := range []string{"of-a-tenant", "slipway-one"} {
		r.update(r.facts.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "a", Name: slice, Labels: map[string]string{discoveryv1.LabelServiceName: "slipway-one"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		}))
		if got := current(); got != (i == 1) {
			t.Errorf("with the EndpointSlice %s: current is %t", slice, got)
		}
	}
}

// TestDeploymentPods: a Gateway with a Deployment of its own is programmed once one of its
// Pods is ready.
func TestDeploymentPods(t *testing.T) {
	options := serviceOptions(0)
	options.DeploymentNamespace = "slipway"
	r := newReplica(t, options)
	r.put("a/one", 1, "80")
	r.see("a/one", r.status("a/one"))
	r.update(r.facts.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "slipway-one"}, Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9"},
	}))
	for ready, want := range []string{"Pending", "Programmed"} {
		isReady, name := ready == 1, gateway.DeploymentName("a", "one")
		r.update(r.facts.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "slipway", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady}}},
		}))
		reason, _ := r.programmed("a/one")
		r.require(fmt.Sprintf("with %d Pods", ready), reason, want)
	}
}
