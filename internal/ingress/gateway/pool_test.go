package gateway_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// gatewaysWith returns Gateways of a namespace as YAML, one for each of some addresses; an
// empty one asks for none.
func gatewaysWith(namespace string, addresses ...string) string {
	var text strings.Builder
	for i, address := range addresses {
		if address != "" {
			address = "addresses: [{value: " + address + "}], "
		}
		fmt.Fprintf(&text, "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g%d, namespace: %s}\n"+
			"spec: {gatewayClassName: slipway, %slisteners: [{name: http, port: 80, protocol: HTTP}]}\n", i, namespace, address)
	}
	return strings.TrimPrefix(text.String(), "---\n")
}

// pooled is an engine with Gateways of an address pool of four, two for a namespace.
type pooled struct {
	cluster
	engine *engine.Engine
}

func newPooled(t *testing.T, objects string) *pooled {
	t.Helper()
	return restarted(t, objects, nil)
}

// restarted is newPooled with the addresses that were recorded before.
func restarted(t *testing.T, objects string, served map[snapshot.Ref]netip.Addr) *pooled {
	t.Helper()
	p := &pooled{cluster: cluster{snapshot: snapshot.New()}}
	p.put(&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway", Generation: 1},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	})
	p.addYAML(t, []byte(objects))
	p.engine = engine.New(p.snapshot, resolve.Options{Gateways: resolve.GatewayOptions{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/30")}, AddressesPerNamespace: 2, Served: served,
	}})
	p.engine.Update(p.changed)
	return p
}

// expect compares the last byte of the address of each Gateway of a namespace, or the
// reason why it has none.
func (p *pooled) expect(t *testing.T, namespace string, want ...string) {
	t.Helper()
	for i, one := range want {
		status := p.engine.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: namespace, Name: fmt.Sprintf("g%d", i)}).Gateway
		got := "gone"
		if status != nil && len(status.Addresses) == 1 {
			got = strings.TrimPrefix(status.Addresses[0].Value, "192.0.2.")
		} else if status != nil {
			got = status.Conditions[1].Reason
		}
		if got != one {
			t.Errorf("%s/g%d has %s, want %s", namespace, i, got, one)
		}
	}
}

// remove deletes a Gateway.
func (p *pooled) remove(namespace, name string) {
	p.engine.Update(p.snapshot.Delete(snapshot.Gateway, namespace, name))
}

// TestAddressesPerNamespace: a namespace gets two addresses, asked for or not, so that the
// others are left for other namespaces.
func TestAddressesPerNamespace(t *testing.T) {
	p := newPooled(t, gatewaysWith("evil", "192.0.2.18", "", "192.0.2.19", "")+"---\n"+gatewaysWith("bank", "", ""))
	p.expect(t, "evil", "18", "16", "AddressNotAssigned", "AddressNotAssigned")
	p.expect(t, "bank", "17", "19")
}

// TestAddressFreed: a Gateway that waits for an address gets one when it becomes free,
// also that of another namespace, or one that it asks for.
func TestAddressFreed(t *testing.T) {
	p := newPooled(t, gatewaysWith("evil", "", "", "192.0.2.16")+"---\n"+gatewaysWith("bank", "", "")+"---\n"+gatewaysWith("shop", ""))
	p.expect(t, "evil", "16", "17", "AddressNotUsable")
	p.expect(t, "shop", "AddressNotAssigned")
	p.remove("bank", "g0")
	p.expect(t, "shop", "18")
	p.remove("evil", "g0")
	p.expect(t, "evil", "gone", "17", "16")
	p.expect(t, "bank", "gone", "19")
}

// TestAddressChanged: a Gateway that asks for another address gets it, and one that asks
// for the address that it has keeps it, also where the namespace has no more than these.
func TestAddressChanged(t *testing.T) {
	p := newPooled(t, gatewaysWith("shop", "192.0.2.16", "192.0.2.17"))
	for generation, address := range []string{"192.0.2.16", "192.0.2.18"} {
		kind := gatewayv1.IPAddressType
		next := p.snapshot.GatewayObject(snapshot.Ref{Kind: snapshot.Gateway, Namespace: "shop", Name: "g0"}).(*gatewayv1.Gateway).DeepCopy()
		next.Generation = int64(generation + 2)
		next.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: address}}
		p.engine.Update(p.snapshot.Put(next))
		p.expect(t, "shop", strings.TrimPrefix(address, "192.0.2."), "17")
	}
}

// TestRecordedAddresses: after a restart a Gateway has the address that the edge recorded
// for it. One that has another one in its status does not get that, however old it is,
// and neither does one that asks for it.
func TestRecordedAddresses(t *testing.T) {
	const forged = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g0, namespace: evil}
spec: {gatewayClassName: slipway, listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: 192.0.2.18}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g1, namespace: evil}
spec: {gatewayClassName: slipway, addresses: [{value: 192.0.2.18}], listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: 192.0.2.18}]}
---
`
	at := func(namespace, name string) snapshot.Ref {
		return snapshot.Ref{Kind: snapshot.Gateway, Namespace: namespace, Name: name}
	}
	served := map[snapshot.Ref]netip.Addr{
		at("bank", "g0"): netip.MustParseAddr("192.0.2.18"), at("bank", "gone"): netip.MustParseAddr("192.0.2.16"),
	}
	p := restarted(t, forged+gatewaysWith("bank", "", ""), served)
	p.expect(t, "bank", "18", "17")
	p.expect(t, "evil", "16", "AddressNotUsable")
	// The record counts as long as the Gateway has the address.
	p.remove("bank", "g0")
	p.expect(t, "evil", "16", "18")
	// A record of an address that the pool does not have any more does not count.
	p = restarted(t, gatewaysWith("shop", "192.0.2.17")+"---\n"+gatewaysWith("bank", "", ""), map[snapshot.Ref]netip.Addr{
		at("bank", "g0"): netip.MustParseAddr("198.51.100.1"), at("bank", "g1"): netip.MustParseAddr("192.0.2.18"),
	})
	p.expect(t, "shop", "17")
	p.expect(t, "bank", "16", "18")
}
