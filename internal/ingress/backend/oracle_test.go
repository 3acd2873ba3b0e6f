package backend_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TestOracle compares which addresses serve, for random slices, with a reading
// of the rules that knows nothing of order, sorting or cost.
func TestOracle(t *testing.T) {
	const cases = 20000
	const seed = 1
	for i := range cases {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		service, all := randomService(random), randomSlices(random)
		zone := pick(random, "", "a", "b", "c")
		state := snapshot.New()
		state.Put(service)
		for _, slice := range all {
			state.Put(slice)
		}
		result := backend.Build(state.View(), route.BackendID{Namespace: "shop", Name: "cart", Port: 80}, backend.Options{Zone: zone})
		got := map[string]route.EndpointState{}
		for _, e := range result.Backend.Endpoints {
			got[e.Address.String()] = e.State
		}
		want := naive(service, all, zone)
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != len(result.Backend.Endpoints) {
			t.Fatalf("seed %d, case %d, zone %q\ngot  %v\nwant %v\nslices %+v", seed, i, zone, got, want, all)
		}
		if !slices.IsSortedFunc(result.Backend.Endpoints, func(a, b route.Endpoint) int { return a.Address.Compare(b.Address) }) {
			t.Fatalf("seed %d, case %d: not sorted", seed, i)
		}
	}
}

// naiveEndpoint is an endpoint as the rules speak of it.
type naiveEndpoint struct {
	at              string
	ipv6            bool
	ready, draining bool
	pod             string
	zones           []string
}

// naive is the rules, one after the other.
func naive(service *corev1.Service, all []*discoveryv1.EndpointSlice, zone string) map[string]route.EndpointState {
	var listed []naiveEndpoint
	for _, slice := range all {
		for _, port := range slice.Ports {
			if port.Name == nil || *port.Name != "http" || port.Port == nil || slice.AddressType == discoveryv1.AddressTypeFQDN {
				continue
			}
			for _, e := range slice.Endpoints {
				listed = append(listed, naiveOf(e, *port.Port))
			}
		}
	}
	var distinct []naiveEndpoint
	for _, e := range listed {
		at := slices.IndexFunc(distinct, func(o naiveEndpoint) bool { return o.at == e.at })
		switch {
		case at < 0:
			distinct = append(distinct, e)
		case e.ready && !distinct[at].ready, e.draining && !distinct[at].ready && !distinct[at].draining:
			distinct[at] = e
		}
	}
	first6 := service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	var usable []naiveEndpoint
	for _, e := range distinct {
		twin := slices.ContainsFunc(distinct, func(o naiveEndpoint) bool {
			return e.pod != "" && o.pod == e.pod && o.ipv6 != e.ipv6 && o.ipv6 == first6 && (o.ready || o.draining)
		})
		if (e.ready || e.draining) && !twin {
			usable = append(usable, e)
		}
	}
	return naiveStates(usable, zone)
}

func naiveOf(e discoveryv1.Endpoint, port int32) naiveEndpoint {
	address := netip.MustParseAddr(e.Addresses[0])
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	out := naiveEndpoint{at: netip.AddrPortFrom(address, uint16(port)).String(), ipv6: address.Is6(), ready: ready}
	out.draining = !ready && e.Conditions.Serving != nil && *e.Conditions.Serving && e.Conditions.Terminating != nil && *e.Conditions.Terminating
	if e.TargetRef != nil {
		out.pod = string(e.TargetRef.UID)
	}
	if e.Hints != nil {
		for _, hint := range e.Hints.ForZones {
			out.zones = append(out.zones, hint.Name)
		}
	}
	return out
}

func naiveStates(usable []naiveEndpoint, zone string) map[string]route.EndpointState {
	anyReady, follow, here := false, zone != "", false
	for _, e := range usable {
		if e.ready {
			anyReady = true
			follow = follow && len(e.zones) > 0
			here = here || slices.Contains(e.zones, zone)
		}
	}
	states := map[string]route.EndpointState{}
	for _, e := range usable {
		switch {
		case !anyReady:
			states[e.at] = route.EndpointReady
		case e.draining:
			states[e.at] = route.EndpointDraining
		case !follow || !here || slices.Contains(e.zones, zone):
			states[e.at] = route.EndpointReady
		}
	}
	return states
}

func randomService(random *rand.Rand) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec: corev1.ServiceSpec{
			IPFamilies: []corev1.IPFamily{pick(random, corev1.IPv4Protocol, corev1.IPv6Protocol)},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}},
		},
	}
}

func randomSlices(random *rand.Rand) []*discoveryv1.EndpointSlice {
	hints := random.IntN(2) == 0
	var all []*discoveryv1.EndpointSlice
	for i := range random.IntN(5) {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("cart-%d", i), Labels: map[string]string{discoveryv1.LabelServiceName: "cart"}},
			AddressType: pick(random, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN),
		}
		for _, name := range []string{"metrics", "http"} {
			port := discoveryv1.EndpointPort{Name: &name, Port: new(pick[int32](random, 8080, 8081))}
			if random.IntN(10) == 0 {
				port.Port = nil
			}
			if random.IntN(10) != 0 {
				slice.Ports = append(slice.Ports, port)
			}
		}
		for range random.IntN(6) {
			slice.Endpoints = append(slice.Endpoints, randomEndpoint(random, slice.AddressType, hints))
		}
		all = append(all, slice)
	}
	return all
}

func randomEndpoint(random *rand.Rand, family discoveryv1.AddressType, hints bool) discoveryv1.Endpoint {
	number := random.IntN(5)
	e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", number+1)}}
	if family == discoveryv1.AddressTypeIPv6 {
		e.Addresses = []string{fmt.Sprintf("fd00::%d", number+1)}
	}
	if random.IntN(4) != 0 {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: types.UID(fmt.Sprint("pod-", number))}
	}
	e.Conditions = discoveryv1.EndpointConditions{
		Ready: pick(random, nil, new(true), new(false), new(false)), Serving: pick(random, nil, new(true), new(false)),
		Terminating: pick(random, nil, new(true), new(false)),
	}
	if hints && random.IntN(12) != 0 {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: pick(random, "a", "b")}, {Name: pick(random, "a", "b")}}}
	}
	return e
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }
