package gateway_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestRouteTooLarge: a route with more host names at more listeners than the limit is
// refused as a whole. One object must not fill the table.
func TestRouteTooLarge(t *testing.T) {
	for kind, protocol := range map[snapshot.Kind]string{snapshot.TLSRoute: "TLS, tls: {mode: Passthrough}", snapshot.HTTPRoute: "HTTP"} {
		expectLimit(t, kind, protocol, resolve.MaxRules/portsOfLimit)
		expectLimit(t, kind, protocol, resolve.MaxRules/portsOfLimit+1)
	}
}

// portsOfLimit is the number of listeners that each route of TestRouteTooLarge has.
const portsOfLimit = 50

func expectLimit(t *testing.T, kind snapshot.Kind, protocol string, hosts int) {
	t.Helper()
	c := &cluster{snapshot: snapshot.New()}
	var listeners, names []string
	for i := range portsOfLimit {
		listeners = append(listeners, fmt.Sprintf("{name: p%d, port: %d, protocol: %s}", i, 1000+i, protocol))
	}
	for i := range hosts {
		names = append(names, fmt.Sprintf("h%d.com", i))
	}
	const api = "apiVersion: gateway.networking.k8s.io/v1\n"
	named, _, _ := strings.Cut(string(kind), ".")
	c.addYAML(t, []byte(api+"kind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n"+
		"---\n"+api+"kind: Gateway\nmetadata: {name: main, namespace: shop}\nspec: {gatewayClassName: slipway, listeners: ["+strings.Join(listeners, ", ")+"]}\n"+
		"---\n"+api+"kind: "+named+"\nmetadata: {name: large, namespace: shop}\nspec: {parentRefs: [{name: main}], hostnames: ["+strings.Join(names, ", ")+"], rules: [{backendRefs: [{name: a, port: 80}]}]}\n"))
	found := engine.New(c.snapshot, resolve.Options{Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/28")}}})
	result := found.Update(c.changed)
	want, served := gatewayv1.RouteReasonAccepted, portsOfLimit*hosts
	if served > resolve.MaxRules {
		want, served = gatewayv1.RouteReasonUnsupportedValue, 0
	}
	got := found.GatewayStatus(snapshot.Ref{Kind: kind, Namespace: "shop", Name: "large"}).Parents[0].Conditions[0].Reason
	if rules := len(result.Change.Rules.Added) + len(result.Change.TCPRoutes.Added); got != string(want) || rules != served {
		t.Errorf("%s with %d host names: %s with %d rules of the table, want %s with %d", kind, hosts, got, rules, want, served)
	}
}
