package engine_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// gatewayTown is a town with the resolver le and the GatewayClass of the edge.
func gatewayTown(t *testing.T) *town {
	facts := snapshot.New()
	w := &town{t, facts, engine.New(facts, resolve.Options{
		Resolvers: map[string]resolve.CertificateResolver{"le": {}}, Home: "slipway",
		Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}},
	}), route.NewIndex()}
	w.put(&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	})
	return w
}

// nextGeneration is that of the next object: a new one is a new spec.
var nextGeneration int64

func newMeta(namespace, name string, second int64) metav1.ObjectMeta {
	nextGeneration++
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(second, 0), Generation: nextGeneration}
}

// requestingGateway is a Gateway whose listener requests a certificate for a host; routes
// of all namespaces may attach to it.
func requestingGateway(namespace, name, host string, second int64) *gatewayv1.Gateway {
	all, hostname := gatewayv1.NamespacesFromAll, gatewayv1.Hostname(host)
	return &gatewayv1.Gateway{
		ObjectMeta: newMeta(namespace, name, second),
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "slipway", Listeners: []gatewayv1.Listener{
			{
				Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
			},
			{
				Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: &hostname,
				TLS:           &gatewayv1.ListenerTLSConfig{Options: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{"slipway.dev/certificate-resolver": "le"}},
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
			},
		}},
	}
}

// routeTo is an HTTPRoute for a host at the listener https of a Gateway of infra.
func routeTo(namespace, gateway, host string, second int64) *gatewayv1.HTTPRoute {
	of, section := gatewayv1.Namespace("infra"), gatewayv1.SectionName("https")
	return &gatewayv1.HTTPRoute{
		ObjectMeta: newMeta(namespace, "site", second),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Namespace: &of, Name: gatewayv1.ObjectName(gateway), SectionName: &section}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(host)}, Rules: []gatewayv1.HTTPRouteRule{{}},
		},
	}
}

// TestListenerRequestsFollowOwners: a listener has a certificate for a host that no other
// namespace has, or whose owner has attached a route to it. That changes with Ingresses,
// routes and other listeners.
func TestListenerRequestsFollowOwners(t *testing.T) {
	w := gatewayTown(t)
	want := func(after string, changed engine.Result, requests ...string) {
		t.Helper()
		if got := w.requested(); !slices.Equal(got, requests) {
			t.Errorf("%s: requested %q, want %q", after, got, requests)
		}
		if !changed.RequestsChanged {
			t.Errorf("%s: the change is not reported", after)
		}
	}
	want("a listener", w.put(requestingGateway("infra", "public", "one.example", 5)), "infra one.example public")
	if result := w.put(requestingGateway("thief", "own", "one.example", 6)); result.RequestsChanged {
		t.Error("a younger listener of another namespace has changed the requests")
	}
	want("an older listener", w.put(requestingGateway("older", "own", "one.example", 1)), "older one.example own")
	want("without the older one", w.remove(snapshot.Gateway, "older", "own"), "infra one.example public")
	want("an Ingress of another namespace", w.put(site("shop", "cart", "one.example", 9)))
	want("a route of the owner at the listener", w.put(routeTo("shop", "public", "one.example", 10)), "infra one.example public")
	plain, section := routeTo("shop", "public", "one.example", 10), gatewayv1.SectionName("http")
	plain.Spec.ParentRefs[0].SectionName = &section
	want("the route at another listener", w.put(plain))
	want("the route at the listener again", w.put(routeTo("shop", "public", "one.example", 10)), "infra one.example public")
	want("the route at another Gateway", w.put(routeTo("shop", "elsewhere", "one.example", 10)))
	want("without the Ingress", w.remove(snapshot.Ingress, "shop", "cart"), "infra one.example public")
	if got := w.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: "thief", Name: "own"}).Gateway.Listeners[1].Conditions; !slices.ContainsFunc(got, func(c metav1.Condition) bool {
		return c.Type == "ResolvedRefs" && c.Reason == "HostNotGranted" && strings.Contains(c.Message, "belongs to namespace infra")
	}) {
		t.Errorf("the younger listener has the conditions %+v", got)
	}
	want("without the listener", w.put(requestingGateway("infra", "public", "two.example", 5)), "infra two.example public", "thief one.example own")
}

// TestListenerSharesRequest: an Ingress and a listener of one namespace share a
// certificate, which is requested until the last of them is gone.
func TestListenerSharesRequest(t *testing.T) {
	w := gatewayTown(t)
	w.put(requestingGateway("infra", "public", "one.example", 5), requester("infra", "cart", "one.example", 6))
	w.wantRequests("infra one.example public cart")
	name := certrequest.SecretName("le", []string{"one.example"})
	w.put(&snapshot.SecretBody{Namespace: "infra", Name: name, Data: map[string][]byte{
		"tls.crt": []byte(certificates[0].Chain), "tls.key": []byte(certificates[0].Key),
	}})
	w.wantRequests("infra one.example public cart ready")
	var listeners []string
	for _, listener := range w.book.Table().Listeners {
		for _, use := range listener.Certificates {
			listeners = append(listeners, listener.ID.String()+" "+use.Host+" "+use.Certificate.Name)
		}
	}
	if want := []string{"infra/public:443 one.example " + name}; !slices.Equal(listeners, want) {
		t.Errorf("the listeners have %q, want %q", listeners, want)
	}
	w.remove(snapshot.Gateway, "infra", "public")
	w.wantRequests("infra one.example cart ready")
	w.remove(snapshot.Ingress, "infra", "cart")
	w.wantRequests()
}

// TestChallengesFollowListeners: a pending challenge is served by the HTTP listeners of
// the Gateways that request a certificate, which may change meanwhile.
func TestChallengesFollowListeners(t *testing.T) {
	w := gatewayTown(t)
	served := func() []string {
		var all []string
		for _, rule := range w.book.Table().Rules {
			if rule.ID.Kind == "Challenge" {
				all = append(all, rule.Host+" "+strings.Join(append(rule.EntryPoints, rule.Listener.String()), " "))
			}
		}
		slices.Sort(all)
		return all
	}
	challenge := certrequest.Challenge{Host: "one.example", EntryPoint: "web", KeyAuthorization: "token.thumb"}
	result := w.put(requestingGateway("infra", "public", "one.example", 5),
		&snapshot.SecretBody{Namespace: "slipway", Name: certrequest.ChallengesSecret, Data: map[string][]byte{"token": challenge.Encode()}})
	entry := "one.example web " + route.ListenerID{}.String()
	if got, want := served(), []string{"one.example infra/public:80", entry}; !slices.Equal(got, want) || !result.TokensChanged {
		t.Errorf("served: %q, want %q", got, want)
	}
	if got := w.Tokens(); !slices.Equal(got, []string{"token"}) {
		t.Errorf("tokens: %q", got)
	}
	warned := func() bool {
		status := w.GatewayStatus(snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: "public"}).Gateway.Listeners[1]
		return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, "Authorities connect to port 80") })
	}
	if warned() {
		t.Error("the condition of a Gateway with port 80 names it")
	}
	moved := requestingGateway("infra", "public", "one.example", 5)
	moved.Spec.Listeners[0].Port = 8080
	w.put(moved)
	if !warned() {
		t.Error("the condition does not name port 80")
	}
	if got, want := served(), []string{"one.example infra/public:8080", entry}; !slices.Equal(got, want) {
		t.Errorf("served at another port: %q, want %q", got, want)
	}
	w.put(site("shop", "cart", "one.example", 9))
	if got, want := served(), []string{entry}; !slices.Equal(got, want) {
		t.Errorf("served for a host of another namespace: %q, want %q", got, want)
	}
}
