package backend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

var cart = route.BackendID{Namespace: "shop", Name: "cart", Port: 80}

// cartService is a Service with one port.
func cartService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// cartSlice has ready endpoints at 10.x.y.z, counted from a number.
func cartSlice(name string, from, count int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for i := from; i < from+count; i++ {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", UID: "pod"},
			Zone:       new("a"),
		})
	}
	return slice
}

func TestAppProtocol(t *testing.T) {
	for word, want := range map[string]route.Protocol{
		"":                     route.ProtocolHTTP1,
		"http":                 route.ProtocolHTTP1,
		"HTTP":                 route.ProtocolHTTP1,
		"https":                route.ProtocolTLS,
		"kubernetes.io/h2c":    route.ProtocolH2C,
		"kubernetes.io/ws":     route.ProtocolHTTP1,
		"kubernetes.io/wss":    route.ProtocolTLS,
		"grpc":                 route.ProtocolH2C,
		"grpcs":                route.ProtocolH2,
		"mysql":                route.ProtocolHTTP1,
		"example.com/whatever": route.ProtocolHTTP1,
	} {
		service := cartService()
		service.Spec.Ports[0].AppProtocol = &word
		state := snapshot.New()
		state.Put(service)
		result := backend.Build(state.View(), cart, backend.Options{})
		transport := result.Backend.Transport
		if transport.Protocol != want || len(result.Refusals) > 0 {
			t.Errorf("appProtocol %q gives %q and refusals %v, want %q", word, transport.Protocol, result.Refusals, want)
		}
		if want.Encrypted() && (transport.TLS == nil || *transport.TLS != route.UpstreamTLS{ServerName: "cart.shop.svc"}) {
			t.Errorf("appProtocol %q is verified by %+v", word, transport.TLS)
		}
	}
}

// Backends of GRPCRoutes speak HTTP/2, whatever the Service declares.
func TestGRPCProtocol(t *testing.T) {
	grpc := cart
	grpc.Variant = backend.GRPCVariant
	for word, want := range map[string]route.Protocol{
		"": route.ProtocolH2C, "http": route.ProtocolH2C, "grpc": route.ProtocolH2C, "https": route.ProtocolH2, "grpcs": route.ProtocolH2,
	} {
		service := cartService()
		service.Spec.Ports[0].AppProtocol = &word
		state := snapshot.New()
		state.Put(service)
		if got := backend.Build(state.View(), grpc, backend.Options{}).Backend.Transport.Protocol; got != want {
			t.Errorf("appProtocol %q gives %q, want %q", word, got, want)
		}
	}
}

func TestExternalNameRefused(t *testing.T) {
	allowed := []string{
		"example.com", "a_b.example.com", "svc.example.com", "x.svc.example.com", "192.0.2.1", "10.0.0.1", "2001:db8::1",
		"xn--bcher-kva.example", "0x.example.com", "127.example.com", "64:ff9b::c000:201",
	}
	refused := map[string]refusal.Reason{
		"127.0.0.1": refusal.NotAllowed, "127.255.0.9": refusal.NotAllowed, "::1": refusal.NotAllowed, "::ffff:127.0.0.1": refusal.NotAllowed,
		"169.254.169.254": refusal.NotAllowed, "169.254.169.254.": refusal.NotAllowed, "::ffff:169.254.169.254": refusal.NotAllowed, "::ffff:100.100.100.200": refusal.NotAllowed,
		"fe80::1": refusal.NotAllowed, "fe80::1%eth0": refusal.NotAllowed, "fd00:ec2::254": refusal.NotAllowed,
		"100.100.100.200": refusal.NotAllowed, "168.63.129.16": refusal.NotAllowed, "64:ff9b::a9fe:a9fe": refusal.NotAllowed,
		"0.0.0.0": refusal.NotAllowed, "0.1.2.3": refusal.NotAllowed, "::": refusal.NotAllowed, "224.0.0.1": refusal.NotAllowed, "255.255.255.255": refusal.NotAllowed,
		"localhost": refusal.NotAllowed, "LOCALHOST.": refusal.NotAllowed, "a.localhost": refusal.NotAllowed, "localhost.localdomain": refusal.NotAllowed,
		"ip6-loopback": refusal.NotAllowed,
		"127.1":        refusal.Invalid, "0x7f.1": refusal.Invalid, "2130706433": refusal.Invalid, "0x7f000001": refusal.Invalid, "127.0.0.01": refusal.Invalid,
		"1.2.3.4.5": refusal.Invalid, "host.0x": refusal.Invalid,
		"": refusal.Invalid, ".": refusal.Invalid, "a..b": refusal.Invalid, "-a.b": refusal.Invalid, "a b.c": refusal.Invalid, "*.example.com": refusal.Invalid,
		"example.com:8080": refusal.Invalid, "http://example.com": refusal.Invalid, "bücher.example": refusal.Invalid, "internal": refusal.Invalid,
		strings.Repeat("a", 64) + ".com": refusal.Invalid, strings.Repeat("a.", 130) + "com": refusal.Invalid,
		"kubernetes.default.svc": refusal.NotAllowed, "kubernetes.default.svc.cluster.local.": refusal.NotAllowed, "pod.db.bank.svc.example.org": refusal.NotAllowed,
	}
	build := func(name string) backend.Result {
		service := cartService()
		service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, name
		state := snapshot.New()
		state.Put(service)
		return backend.Build(state.View(), cart, backend.Options{ExternalNames: true})
	}
	for _, name := range allowed {
		if result := build(name); result.Closed != nil || len(result.Backend.Endpoints) != 1 || len(result.Backend.Validate()) > 0 {
			t.Errorf("%q: %v, %v", name, result.Closed, result.Backend)
		}
	}
	for name, reason := range refused {
		result := build(name)
		if result.Closed == nil || result.Closed.Reason != reason || result.Closed.Field != "spec.externalName" {
			t.Errorf("%q: %v, want %s", name, result.Closed, reason)
		}
		if len(result.Backend.Endpoints) > 0 || len(result.Refusals) != 1 {
			t.Errorf("%q: %v, %v", name, result.Backend.Endpoints, result.Refusals)
		}
	}
}

func TestTooManyEndpoints(t *testing.T) {
	state := snapshot.New()
	state.Put(cartService())
	for i := range 6 {
		state.Put(cartSlice(fmt.Sprint("cart-", 9-i), 1000*i, 1000))
	}
	result := backend.Build(state.View(), cart, backend.Options{})
	endpoints := result.Backend.Endpoints
	if len(endpoints) != backend.MaxEndpoints || endpoints[0].Address.String() != "10.0.0.0:8080" || endpoints[4999].Address.String() != "10.0.19.135:8080" {
		t.Errorf("%d endpoints, from %v to %v", len(endpoints), endpoints[0], endpoints[len(endpoints)-1])
	}
	if len(result.Refusals) != 1 || result.Refusals[0].Reason != refusal.TooLarge || result.Closed != nil {
		t.Errorf("refusals %v, closed %v", result.Refusals, result.Closed)
	}

	// Those that drain do not take the place of those that serve.
	slice := cartSlice("cart-9", 0, 1000)
	for i := range slice.Endpoints {
		slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	}
	state.Put(slice)
	result = backend.Build(state.View(), cart, backend.Options{})
	endpoints = result.Backend.Endpoints
	if len(endpoints) != backend.MaxEndpoints || endpoints[0].Address.String() != "10.0.3.232:8080" {
		t.Errorf("%d endpoints, from %v", len(endpoints), endpoints[0])
	}
}

// TestReads checks what a backend reads: a change of it makes the backend dirty.
func TestReads(t *testing.T) {
	service, slice := snapshot.Ref{Kind: snapshot.Service, Namespace: "shop", Name: "cart"}, snapshot.Ref{Kind: snapshot.EndpointSlice, Namespace: "shop", Name: "cart"}
	releases := snapshot.Ref{Kind: snapshot.Release, Namespace: "shop"}
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		want   []snapshot.Ref
	}{
		"slices":             {func(*corev1.Service) {}, []snapshot.Ref{slice, releases, service}},
		"no such port":       {func(s *corev1.Service) { s.Spec.Ports = nil }, []snapshot.Ref{service}},
		"closed":             {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, []snapshot.Ref{service}},
		"another Service":    {func(s *corev1.Service) { s.Name = "other" }, []snapshot.Ref{service}},
		"another namespaces": {func(s *corev1.Service) { s.Namespace = "bank" }, []snapshot.Ref{service}},
	} {
		object := cartService()
		test.change(object)
		state := snapshot.New()
		state.Put(object)
		view := state.View()
		backend.Build(view, cart, backend.Options{})
		got := slices.SortedFunc(view.Reads(), snapshot.Ref.Compare)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: read %v, want %v", name, got, test.want)
		}
	}
}

// TestClosed: a Service without endpoints is not closed, one that is gone is.
func TestClosed(t *testing.T) {
	state := snapshot.New()
	state.Put(cartService())
	if empty := backend.Build(state.View(), cart, backend.Options{}); empty.Closed != nil || len(empty.Backend.Endpoints) != 0 {
		t.Errorf("empty %v", empty)
	}
	state.Delete(snapshot.Service, "shop", "cart")
	if gone := backend.Build(state.View(), cart, backend.Options{}); gone.Closed == nil || gone.Closed.Reason != refusal.NotFound {
		t.Errorf("gone %v", gone)
	}
}

// TestVariant keeps the identity as it is asked for.
func TestVariant(t *testing.T) {
	state := snapshot.New()
	state.Put(cartService())
	id := cart
	id.Variant = "tls"
	if result := backend.Build(state.View(), id, backend.Options{}); result.Backend.ID != id || result.Closed != nil {
		t.Errorf("got %v, %v", result.Backend.ID, result.Closed)
	}
}

// TestKinds knows every type of Service.
func TestKinds(t *testing.T) {
	for _, kind := range []corev1.ServiceType{"", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
		service := cartService()
		service.Spec.Type = kind
		state := snapshot.New()
		state.Put(service)
		state.Put(cartSlice("cart-1", 1, 2))
		if result := backend.Build(state.View(), cart, backend.Options{}); len(result.Backend.Endpoints) != 2 {
			t.Errorf("type %q has %v", kind, result.Backend.Endpoints)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, count := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			state := snapshot.New()
			state.Put(cartService())
			slice := cartSlice("cart-1", 0, count)
			slices.Reverse(slice.Endpoints)
			state.Put(slice)
			b.ReportAllocs()
			for b.Loop() {
				if result := backend.Build(state.View(), cart, backend.Options{}); len(result.Backend.Endpoints) != count {
					b.Fatal(result.Endpoints)
				}
			}
		})
	}
}
