package tenancy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// listenerSet is a ListenerSet of evil at the Gateway that takes those of all namespaces,
// with one listener.
func listenerSet(listener string) string {
	return "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: NAME, namespace: evil}\nspec:\n" +
		"  parentRef: {name: open, namespace: slipway}\n  listeners: [{name: own, " + listener + "}]\n"
}

// manyPorts is a ListenerSet of evil with as many ports as one can have.
func manyPorts() string {
	listeners := "port: 10000, protocol: HTTP"
	for i := range 63 {
		listeners += fmt.Sprintf("}, {name: p%[1]d, port: %[1]d, protocol: HTTP", 10001+i)
	}
	return strings.Replace(crowd(listeners), "NAME", "NAME-first", 1)
}

// crowd is a ListenerSet of evil at the Gateway where it brings as many ports as it can.
func crowd(listener string) string {
	return strings.Replace(listenerSet(listener), "name: open", "name: crowded", 1)
}

// manyGateways are as many Gateways of evil as one namespace can have addresses for.
func manyGateways() string {
	var all []string
	for i := range addressesPerNamespace {
		all = append(all, strings.Replace(gatewayOf("", "port: 80, protocol: HTTP"), "NAME", fmt.Sprintf("NAME-%d", i), 1))
	}
	return strings.Join(all, "---\n")
}

// addressesLeft: evil has no more addresses than a namespace may have.
func addressesLeft(w *world) error {
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout)
	defer cancel()
	found, err := w.admin.Dynamic.Resource(kinds()["Gateway"]).Namespace(evil).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	count := 0
	for i := range found.Items {
		addresses, _, _ := unstructured.NestedSlice(found.Items[i].Object, "status", "addresses")
		count += len(addresses)
	}
	if count > addressesPerNamespace {
		return fmt.Errorf("the Gateways of evil have %d addresses", count)
	}
	return nil
}

// freesAddresses: the Gateway that waited gets an address when another one of its
// namespace is gone, and all others go too.
func (w *world) freesAddresses(t *testing.T) {
	gateways := w.tenant.Dynamic.Resource(kinds()["Gateway"]).Namespace(evil)
	remove := func(name string) {
		t.Helper()
		if err := gateways.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Others of evil wait as well, so one address may not be enough.
	for i := range addressesPerNamespace {
		remove(fmt.Sprintf("gateway-beyond-limit-%d", i))
	}
	w.eventually(t, "the Gateway that waits has an address", func(ctx context.Context) error {
		found, err := gateways.Get(ctx, "gateway-beyond-limit", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if addresses, _, _ := unstructured.NestedSlice(found.Object, "status", "addresses"); len(addresses) != 1 {
			return errors.New("it has none")
		}
		return nil
	})
	remove("gateway-beyond-limit")
}

// hugeRoute is an HTTPRoute with as many rules, matches and hosts as the API server
// accepts.
func hugeRoute() string {
	var hosts, rules []string
	for i := range 16 {
		hosts = append(hosts, fmt.Sprintf("h%d.huge.evil.example", i))
		var matches []string
		for j := range 8 - i/15 { // fewer than 128 of all rules
			matches = append(matches, fmt.Sprintf("{path: {type: Exact, value: /%d/%d}}", i, j))
		}
		rules = append(rules, fmt.Sprintf("matches: [%s], backendRefs: [{name: evil, port: 80}]", strings.Join(matches, ", ")))
	}
	return httpRoute("{name: shared, namespace: slipway}", strings.Join(hosts, ", "), strings.Join(rules, "}, {"))
}

// listenerAttempts are after the listeners of a Gateway that bank and evil share, after
// bank's objects by routes of all kinds, and after the edge itself.
func listenerAttempts() []attempt {
	const (
		set     = "{kind: ListenerSet, name: NAME}"
		own     = "backendRefs: [{name: evil, port: 80}]"
		toBank  = "backendRefs: [{name: bank, namespace: bank, port: 80}]"
		noGrant = "RefNotPermitted: "
	)
	opened := openServes()
	return []attempt{
		{name: "listener-same-host", applies: listenerSet("hostname: set.bank.example, port: 80, protocol: HTTP"), reason: "HostnameConflict: ", proof: opened},
		{name: "listener-other-protocol", applies: listenerSet("port: 80, protocol: TCP"), reason: "ProtocolConflict: ", proof: opened},
		{name: "listener-port-of-bank", applies: listenerSet("port: 9000, protocol: TCP"), reason: "ProtocolConflict: ", proof: opened},
		{name: "listener-host-of-route", prepares: listenerSet("hostname: open.bank.example, port: 80, protocol: HTTP"),
			applies: httpRoute(set, "open.bank.example", own), reason: "HostNotGranted: ", proof: opened},
		{name: "listener-secret-of-bank", applies: listenerSet("port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: bank-cert, namespace: bank}]}"),
			reason: noGrant, proof: closed(net.JoinHostPort(openGateway, "8443"))},
		{name: "listener-many-ports", prepares: manyPorts(), applies: crowd("port: 11000, protocol: HTTP"),
			reason: "PortUnavailable: ", proof: all(opened, closed(net.JoinHostPort(crowdedGateway, "11000")))},
		{name: "gateway-beyond-limit", prepares: manyGateways(), applies: gatewayOf("", "port: 80, protocol: HTTP"),
			reason: "AddressNotAssigned: the Gateways of the namespace evil have 4 addresses", proof: all(opened, addressesLeft)},
		{name: "tcproute-service-of-bank", prepares: listenerSet("port: 9100, protocol: TCP"), applies: streamRoute("TCPRoute", set, "", toBank),
			reason: noGrant, proof: silent(net.JoinHostPort(openGateway, "9100"))},
		{name: "udproute-service-of-bank", prepares: listenerSet("port: 9101, protocol: UDP"), reason: noGrant,
			applies: streamRoute("UDPRoute", set, "", "backendRefs: [{name: bank, namespace: bank, port: 81}]"),
			proof:   sendsTo(net.JoinHostPort(openGateway, "9101"), "datagram of evil", opened, unheard("datagram of evil"))},
		{name: "grpcroute-same-host", applies: streamRoute("GRPCRoute", "{name: shared, namespace: slipway}", "hostnames: [route.bank.example]", own),
			reason: "HostNotGranted: ", proof: servedAt(sharedGateway + " route.bank.example/pay")},
		{name: "grpcroute-host-of-ingress", applies: streamRoute("GRPCRoute", "{name: shared, namespace: slipway}", "hostnames: [bank.example]", own),
			reason: "HostNotGranted: ", proof: servedAt(sharedGateway + " bank.example/")},
		{name: "route-huge", applies: hugeRoute(), reason: "more than 2000 rules", proof: all(servedAt(sharedGateway+" route.bank.example/pay"),
			respondsAt(sharedGateway+" h0.huge.evil.example/0/0", "404"))},
		{name: "policy-authority-of-bank", reason: "NoValidCACertificate: ", proof: servedAt(sharedGateway + " route.bank.example/pay"),
			prepares: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bank-authority, namespace: bank}\ndata: {ca.crt: none}\n---\n" +
				"apiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: evil}\nspec: {ports: [{port: 80}]}\n---\n" +
				httpRoute("{name: shared, namespace: slipway}", "policy.evil.example", "backendRefs: [{name: NAME, port: 80}]"),
			applies: "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: NAME}\nspec:\n  targetRefs: [{group: \"\", kind: Service, name: NAME}]\n" +
				"  validation: {hostname: bank.example, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: bank-authority}]}\n"},
	}
}

// silent: a connection gets nothing from bank.
func silent(address string) proof {
	return func(*world) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err // nothing would be proven
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(programs.Timeout))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n") // it may be closed
		if text, _ := io.ReadAll(conn); len(text) > 0 {
			return fmt.Errorf("%s responds: %s", address, text)
		}
		return nil
	}
}

// forged: evil can write neither grants nor statuses of bank, and what it writes into
// the status of its own objects has no effect and does not stay.
func (w *world) forged(t *testing.T) {
	for what, object := range map[string]string{
		"a grant": "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: forged, namespace: bank}\nspec:\n" +
			"  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: evil}]\n  to: [{group: \"\", kind: Service}]\n",
		"a listener": "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: forged, namespace: bank}\nspec:\n" +
			"  parentRef: {name: bank}\n  listeners: [{name: own, port: 8080, protocol: HTTP}]\n",
		"a policy": "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: forged, namespace: bank}\nspec:\n" +
			"  targetRefs: [{group: \"\", kind: Service, name: bank}]\n  validation: {hostname: bank.example, wellKnownCACertificates: System}\n",
	} {
		if err := w.tenant.apply(t, object); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("evil writes %s of bank: %v", what, err)
		}
	}
	gateways := kinds()["Gateway"]
	_, err := w.tenant.Dynamic.Resource(gateways).Namespace(bank).Patch(t.Context(), bank, types.MergePatchType, []byte(`{"status": {"addresses": []}}`), metav1.PatchOptions{}, "status")
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("evil writes the status of bank's Gateway: %v", err)
	}
	// A Gateway without an address claims that of bank, and a route that is refused claims
	// to be accepted.
	own := w.tenant.Dynamic.Resource(gateways).Namespace(evil)
	kubetest.Patch(t, own, "gateway-address-of-bank", `{"status": {"addresses": [{"type": "IPAddress", "value": "`+bankGateway+`"}], "conditions": []}}`)
	routes := w.tenant.Dynamic.Resource(kinds()["HTTPRoute"]).Namespace(evil)
	kubetest.Patch(t, routes, "route-same-host", `{"status": {"parents": [{"parentRef": {"name": "shared", "namespace": "slipway"}, "controllerName": "slipway.dev/gateway-controller",
		"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}}`)
	w.eventually(t, "the statuses are true again", func(ctx context.Context) error {
		seen, err := w.look(ctx)
		if err != nil {
			return err
		}
		for object, reason := range map[string]string{"Gateway evil/gateway-address-of-bank": "AddressNotUsable: ", "HTTPRoute evil/route-same-host": "HostNotGranted: "} {
			if !strings.Contains(strings.Join(seen.texts[object], "\n"), reason) {
				return fmt.Errorf("%s has no reason %s: %v", object, reason, seen.texts[object])
			}
		}
		forged, err := own.Get(ctx, "gateway-address-of-bank", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if addresses, _, _ := unstructured.NestedSlice(forged.Object, "status", "addresses"); len(addresses) > 0 {
			return errors.New("the Gateway of evil has an address in its status")
		}
		return nil
	})
	if err := gatewaysServe(w); err != nil {
		t.Error(err)
	}
}
