package backend_test

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// FuzzBuild gives odd objects. Whatever they have, there is a valid backend, and
// it is the same again.
func FuzzBuild(f *testing.F) {
	f.Add(uint64(1), "slipway.dev/scheme", "https", "169.254.169.254")
	f.Add(uint64(2), "slipway.dev/transport", "shop/way", "10.0.0.1")
	f.Add(uint64(3), "traefik.ingress.kubernetes.io/service.serverstransport", "shop-way@kubernetescrd", "cart.bank.svc")
	f.Add(uint64(4), "slipway.dev/sticky-cookie", "{name: s, sameSite: none}", "127.1")
	f.Add(uint64(5), "slipway.dev/health-check", "{mode: grpc}", "\xff")
	f.Add(uint64(6), "slipway.dev/node-port-lb", "true", "fe80::1%eth0")
	f.Add(uint64(7), "slipway.dev/balance", "hash", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, seed uint64, key, value, odd string) {
		random := rand.New(rand.NewPCG(seed, 0))
		state := oddSnapshot(random, key, value, odd)
		options := backend.Options{
			ExternalNames: coin(random), NativeByDefault: coin(random), DisablePassHost: coin(random),
			NoClusterScope: coin(random), CrossNamespace: coin(random), Zone: pick(random, "", "a", odd),
		}
		result := backend.Build(state.View(), cart, options)
		if result.Backend == nil {
			t.Fatal("no backend")
		}
		for _, problem := range result.Backend.Validate() {
			t.Errorf("not valid: %s", problem)
		}
		for _, authority := range result.Authorities {
			for _, problem := range authority.Validate() {
				t.Errorf("not valid: %s", problem)
			}
		}
		if result.Closed != nil && (len(result.Backend.Endpoints) > 0 || result.Closed.Reason == "" || result.Closed.Message == "") {
			t.Errorf("closed by %v, with %v", result.Closed, result.Backend.Endpoints)
		}
		for _, refusal := range result.Refusals {
			if len(refusal.Message) > 500 || refusal.Reason == "" || refusal.Message == "" {
				t.Errorf("refusal %v", refusal)
			}
		}
		for _, e := range result.Backend.Endpoints {
			if e.Address.IsValid() && e.Address.Addr().IsLinkLocalUnicast() {
				t.Errorf("a request could go to %s", e.Address)
			}
		}
		if again := backend.Build(state.View(), cart, options); !reflect.DeepEqual(result, again) {
			t.Errorf("another result: %v, %v", result, again)
		}
	})
}

func coin(random *rand.Rand) bool { return random.IntN(2) == 0 }

func oddSnapshot(random *rand.Rand, key, value, odd string) *snapshot.Snapshot {
	state := snapshot.New()
	for _, kind := range snapshot.CustomKinds() {
		state.SetKind(kind, pick(random, snapshot.KindKnown, snapshot.KindKnown, snapshot.KindMissing, snapshot.KindForbidden, snapshot.KindPending))
	}
	word := func(words ...string) string { return pick(random, append(words, odd)...) }
	service := cartService()
	service.Annotations = map[string]string{key: value}
	if coin(random) {
		service.Annotations[pick(random, "slipway.dev/native-lb", "slipway.dev/node-port-lb", "slipway.dev/scheme")] = word("true", "h2c", "https", "alpn")
	}
	service.Spec = corev1.ServiceSpec{
		Type:       corev1.ServiceType(word("", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")),
		ClusterIP:  word("10.96.0.1", "None", "", "fd00::1"),
		ClusterIPs: pick(random, nil, []string{}, []string{word("10.96.0.1", "None")}), ExternalName: word("example.com", ""),
		IPFamilies: pick(random, nil, []corev1.IPFamily{corev1.IPv6Protocol}), ExternalTrafficPolicy: pick(random, "", corev1.ServiceExternalTrafficPolicyLocal),
		Ports: []corev1.ServicePort{{
			Name: word("http", "https", ""), Port: pick[int32](random, 80, 80, 443), NodePort: random.Int32N(70000) - 1000,
			AppProtocol: pick(random, nil, &odd, new("grpcs")), Protocol: corev1.Protocol(pick(random, "", "TCP", "UDP")),
		}},
	}
	state.Put(service)
	for range random.IntN(4) {
		state.Put(oddSlice(random, odd))
	}
	address, _ := netip.ParseAddr(odd)
	state.Put(&snapshot.NodeFacts{Name: word("n1"), Zone: odd, Internal: []netip.Addr{address, netip.MustParseAddr("192.0.2.1")}, Ready: coin(random)})
	spec := map[string]any{"serverName": odd, "insecureSkipVerify": coin(random), odd: value}
	if coin(random) {
		spec = map[string]any{"tls": map[string]any{"serverName": odd, "caSecret": "way"}, "http1Only": coin(random)}
	}
	for _, kind := range []snapshot.Kind{snapshot.BackendTransport, snapshot.TraefikServersTransport} {
		state.Put(&snapshot.Resource{Kind: kind, Namespace: "shop", Name: "way", Spec: spec})
	}
	state.Put(&snapshot.SecretBody{Namespace: "shop", Name: "way", Data: map[string][]byte{"ca.crt": []byte(odd), "tls.crt": []byte(value)}})
	return state
}

func oddSlice(random *rand.Rand, odd string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: strings.Repeat("x", random.IntN(3)), Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
		AddressType: discoveryv1.AddressType(pick(random, "IPv4", "IPv6", odd)),
	}
	for range random.IntN(3) {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: pick(random, nil, new("http"), &odd), Port: pick(random, nil, new(random.Int32N(70000)-100)),
			Protocol: pick(random, nil, new(corev1.ProtocolTCP), new(corev1.Protocol(odd))),
		})
	}
	for range random.IntN(4) {
		e := randomEndpoint(random, slice.AddressType, coin(random))
		e.Zone, e.NodeName, e.Hostname = pick(random, nil, &odd, new("a")), pick(random, nil, &odd, new("n1")), pick(random, nil, &odd)
		e.Addresses = pick(random, e.Addresses, e.Addresses, []string{odd}, nil)
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return slice
}

// TestIdentity: an identity that route does not know closes nothing else.
func TestIdentity(t *testing.T) {
	result := backend.Build(snapshot.New().View(), route.BackendID{}, backend.Options{})
	if result.Backend == nil || result.Closed == nil {
		t.Errorf("got %+v", result)
	}
}
