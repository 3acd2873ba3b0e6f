package node

import (
	"context"
	"errors"
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/must"
)

// testNames has a Service shop/web, one without an address, and two names.
func testNames() *nameServer {
	return &nameServer{
		names: map[string]string{"git.e2e.test": "10.100.0.1", "app.e2e.test": "shop/edge", "late.e2e.test": "shop/late"},
		service: func(_ context.Context, namespace, name string) (*corev1.Service, error) {
			service := &corev1.Service{}
			switch namespace + "/" + name {
			case "shop/web":
				service.Spec.ClusterIP = "10.96.0.10"
			case "shop/headless":
				service.Spec.ClusterIP = corev1.ClusterIPNone
			case "shop/edge":
				service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.100.1.1"}}
			case "shop/late":
			default:
				return nil, errors.New("there is none")
			}
			return service, nil
		},
	}
}

// TestNames asks through Go's own resolver over a real socket.
func TestNames(t *testing.T) {
	socket := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	context.AfterFunc(ctx, func() { _ = socket.Close() })
	go testNames().serve(ctx, socket)
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	for _, one := range []struct{ name, want string }{
		{"git.e2e.test.", "10.100.0.1"},
		{"GIT.e2e.test.", "10.100.0.1"},
		{"app.e2e.test.", "10.100.1.1"},
		{"late.e2e.test.", ""},
		{"web.shop.svc.cluster.local.", "10.96.0.10"},
		{"headless.shop.svc.cluster.local.", ""},
		{"other.shop.svc.cluster.local.", ""},
		{"a.web.shop.svc.cluster.local.", ""},
		{"example.com.", ""},
	} {
		found, err := resolver.LookupIP(ctx, "ip4", one.name)
		switch {
		case one.want == "" && err == nil:
			t.Errorf("%s is %v", one.name, found)
		case one.want != "" && (err != nil || len(found) != 1 || found[0].String() != one.want):
			t.Errorf("%s is %v, not %s: %v", one.name, found, one.want, err)
		}
	}
}

// FuzzAnswer: no query ends the server, and a response is one to the query.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"git.e2e.test.", "web.shop.svc.cluster.local.", "."} {
		query := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
		}}}
		packed := must.Get(query.Pack())(f)
		f.Add(packed)
	}
	names := testNames()
	f.Fuzz(func(t *testing.T, query []byte) {
		answer, err := names.response(t.Context(), query)
		if err != nil {
			return
		}
		var parser dnsmessage.Parser
		header, err := parser.Start(answer)
		if err != nil || !header.Response || header.ID != uint16(query[0])<<8|uint16(query[1]) {
			t.Errorf("the answer to %x is %x: %v", query, answer, err)
		}
	})
}
