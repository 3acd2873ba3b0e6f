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

// setWithPorts is a ListenerSet of the Gateway as YAML, with a listener for each of some
// ports.
func setWithPorts(namespace, name string, first, count int) string {
	var listeners []string
	for port := first; port < first+count; port++ {
		listeners = append(listeners, fmt.Sprintf("{name: p%d, port: %d, protocol: HTTP}", port, port))
	}
	return fmt.Sprintf("---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: %s, namespace: %s}\nspec: {parentRef: {name: main, namespace: infra}, listeners: [%s]}\n",
		name, namespace, strings.Join(listeners, ", "))
}

// TestPortsOfSets: the ListenerSets of a namespace bring 64 ports to a Gateway, and those of
// another one as many. A listener with a port of the Gateway is not counted.
func TestPortsOfSets(t *testing.T) {
	c := &cluster{snapshot: snapshot.New()}
	c.put(&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway", Generation: 1},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	})
	c.addYAML(t, []byte("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: main, namespace: infra}\nspec:\n  gatewayClassName: slipway\n"+
		"  allowedListeners: {namespaces: {from: All}}\n  listeners: [{name: http, port: 80, protocol: HTTP, hostname: own.example}]\n"+
		setWithPorts("shop", "a", 1000, 40)+setWithPorts("shop", "b", 2000, 25)+setWithPorts("shop", "c", 80, 1)+setWithPorts("other", "a", 3000, 64)))
	found := engine.New(c.snapshot, resolve.Options{Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/28")}}})
	result := found.Update(c.changed)
	if open := len(result.Change.Listeners.Added); open != 1+64+64 {
		t.Errorf("%d listeners are open", open)
	}
	for name, want := range map[string]int{"shop/a": 0, "shop/b": 1, "shop/c": 0, "other/a": 0} {
		namespace, set, _ := strings.Cut(name, "/")
		status := found.GatewayStatus(snapshot.Ref{Kind: snapshot.ListenerSet, Namespace: namespace, Name: set}).Set
		refused := 0
		for _, listener := range status.Listeners {
			for _, condition := range listener.Conditions {
				if condition.Reason == string(gatewayv1.ListenerReasonPortUnavailable) && condition.Status == metav1.ConditionFalse {
					refused++
				}
			}
		}
		if refused != want {
			t.Errorf("%s: %d listeners have no port, want %d", name, refused, want)
		}
	}
}
