package backend_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestNGINX: the backend of an Ingress of ingress-nginx, by its annotations and those of
// the Service.
func TestNGINX(t *testing.T) {
	pair := must.Get(pkitest.Make(pkitest.Certificate{Names: []string{"cart.shop.svc"}}, nil))(t)
	secret := &snapshot.SecretBody{Namespace: "shop", Name: "pair", Data: map[string][]byte{
		"ca.crt": []byte(pair.Chain), "tls.crt": []byte(pair.Chain), "tls.key": []byte(pair.Key),
	}}
	build := func(service map[string]string, pairs ...string) backend.Result {
		facts := snapshot.New()
		object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: service}}
		// The port of TLS: ingress-nginx speaks HTTP there, unless an annotation has it.
		object.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
		object.Spec.ClusterIP = "10.96.0.1"
		facts.Put(object)
		facts.Put(secret)
		ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "site", Annotations: map[string]string{}}}
		for i := 0; i < len(pairs); i += 2 {
			ingress.Annotations[nginx.Prefix+pairs[i]] = pairs[i+1]
		}
		facts.Put(ingress)
		settings, _, _ := nginx.Parse(ingress.Annotations, nil)
		return backend.Build(facts.View(), route.BackendID{Namespace: "shop", Name: "cart", Port: 443, Variant: settings.VariantFor("site", nil)}, backend.Options{})
	}
	for _, c := range []struct {
		name    string
		service map[string]string
		given   []string
		want    route.Transport
	}{
		{"default", nil, nil, route.Transport{Protocol: route.ProtocolHTTP1}},
		{"HTTPS", nil, []string{"backend-protocol", "HTTPS"}, route.Transport{Protocol: route.ProtocolTLS, TLS: &route.UpstreamTLS{SkipVerify: true}}},
		{"GRPC", nil, []string{"backend-protocol", "GRPC"}, route.Transport{Protocol: route.ProtocolH2C}},
		{"GRPCS", nil, []string{"backend-protocol", "grpcs", "proxy-ssl-name", "x.example"}, route.Transport{Protocol: route.ProtocolH2, TLS: &route.UpstreamTLS{SkipVerify: true, ServerName: "x.example"}}},
		{"Service", map[string]string{"slipway.dev/scheme": "h2c"}, []string{"backend-protocol", "HTTPS"}, route.Transport{Protocol: route.ProtocolH2C}},
		{"verified", nil, []string{"backend-protocol", "HTTPS", "proxy-ssl-verify", "on", "proxy-ssl-secret", "shop/pair"}, route.Transport{
			Protocol: route.ProtocolTLS, TLS: &route.UpstreamTLS{
				ServerName: "cart.shop.svc", Authority: route.AuthorityID{Namespace: "shop", Name: "pair"}, Certificate: route.CertificateID{Namespace: "shop", Name: "pair"},
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := build(c.service, c.given...)
			if got.Closed != nil || !reflect.DeepEqual(got.Backend.Transport, c.want) {
				t.Errorf("got %+v %+v, closed %v; want %+v", got.Backend.Transport, got.Backend.Transport.TLS, got.Closed, c.want)
			}
		})
	}
	if got := build(nil, "backend-protocol", "HTTPS", "proxy-ssl-secret", "gone"); got.Closed == nil || !strings.Contains(got.Closed.Message, "gone") {
		t.Errorf("without its Secret it is closed by %v", got.Closed)
	}
	sticky := build(nil, "affinity", "cookie", "session-cookie-name", "stay", "load-balance", "ewma").Backend
	if sticky.Sticky == nil || sticky.Sticky.Name != "stay" || sticky.Balancing.Method != route.BalanceLeastTime {
		t.Errorf("sticky %+v, balancing %+v", sticky.Sticky, sticky.Balancing)
	}
	own := build(map[string]string{"slipway.dev/balance": "roundRobin"}, "upstream-hash-by", "$host").Backend
	if own.Balancing.Method != route.BalanceRoundRobin || own.Balancing.Hash != (route.HashKey{}) {
		t.Errorf("the Service's own balancing is %+v", own.Balancing)
	}
	if native := build(nil, "service-upstream", "true").Backend; len(native.Endpoints) != 1 || native.Endpoints[0].Address.String() != "10.96.0.1:443" {
		t.Errorf("endpoints of the Service's address: %+v", native.Endpoints)
	}
	if own := build(map[string]string{"slipway.dev/native-lb": "false"}, "service-upstream", "true").Backend; len(own.Endpoints) != 0 {
		t.Errorf("the Service has it off, and has the endpoints %+v", own.Endpoints)
	}
}
