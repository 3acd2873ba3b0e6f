package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// gatewayOptions have addresses for some Gateways.
func gatewayOptions() resolve.Options {
	return resolve.Options{Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
}

// gatewaysOf returns a class and Gateways for routes of all namespaces, each with two
// listeners.
func gatewaysOf(names ...string) []any {
	all, kind := gatewayv1.NamespacesFromAll, gatewayv1.IPAddressType
	objects := []any{&gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway", Generation: 1}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "slipway.dev/gateway-controller"},
	}}
	for i, name := range names {
		of := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name, Generation: 1, CreationTimestamp: metav1.Unix(1, 0)}}
		of.Spec.GatewayClassName = "slipway"
		of.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: fmt.Sprintf("192.0.2.%d", i+1)}}
		for port, listener := range []gatewayv1.SectionName{"http", "more"} {
			of.Spec.Listeners = append(of.Spec.Listeners, gatewayv1.Listener{
				Name: listener, Port: gatewayv1.PortNumber(80 + port), Protocol: gatewayv1.HTTPProtocolType,
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
			})
		}
		objects = append(objects, of)
	}
	return objects
}

// parentOf returns the reference of a route to a Gateway; an empty listener is all.
func parentOf(gateway, listener string) gatewayv1.ParentReference {
	namespace := gatewayv1.Namespace("infra")
	ref := gatewayv1.ParentReference{Namespace: &namespace, Name: gatewayv1.ObjectName(gateway)}
	if listener != "" {
		section := gatewayv1.SectionName(listener)
		ref.SectionName = &section
	}
	return ref
}

// routeOf returns an HTTPRoute or a GRPCRoute.
func routeOf(kind snapshot.Kind, meta metav1.ObjectMeta, parents []gatewayv1.ParentReference, hosts ...gatewayv1.Hostname) any {
	common := gatewayv1.CommonRouteSpec{ParentRefs: parents}
	if kind == snapshot.GRPCRoute {
		return &gatewayv1.GRPCRoute{ObjectMeta: meta, Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: common, Hostnames: hosts, Rules: []gatewayv1.GRPCRouteRule{{}}}}
	}
	return &gatewayv1.HTTPRoute{ObjectMeta: meta, Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: common, Hostnames: hosts, Rules: []gatewayv1.HTTPRouteRule{{}}}}
}

// gatewayWorld changes the routes of Gateways at random.
type gatewayWorld struct {
	random *rand.Rand
	facts  *snapshot.Snapshot
	steps  int64
	// names is the number of names of routes of a kind in each namespace.
	names int
}

// step puts or deletes a route.
func (w *gatewayWorld) step() []snapshot.Ref {
	w.steps++
	kind := []snapshot.Kind{snapshot.HTTPRoute, snapshot.GRPCRoute}[w.random.IntN(2)]
	name, namespace := fmt.Sprintf("r%d", w.random.IntN(w.names)), []string{"shop", "other"}[w.random.IntN(2)]
	if w.random.IntN(4) == 0 {
		return w.facts.Delete(kind, namespace, name)
	}
	var hosts []gatewayv1.Hostname
	for _, host := range []gatewayv1.Hostname{"a.x", "b.x", "*.x", "a.b.x", "y"} {
		if w.random.IntN(4) == 0 {
			hosts = append(hosts, host)
		}
	}
	var parents []gatewayv1.ParentReference
	for _, gateway := range []string{"one", "two"} {
		if w.random.IntN(3) > 0 {
			parents = append(parents, parentOf(gateway, []string{"", "http", "more"}[w.random.IntN(3)]))
		}
	}
	return w.facts.Put(routeOf(kind, metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(w.steps)), Generation: w.steps, CreationTimestamp: metav1.Unix(w.random.Int64N(5), 0),
	}, parents, hosts...))
}

// TestRouteConflictsFollow: whatever routes come and go, statuses are those that an engine
// finds which sees all objects at once: which routes conflict, and how many a listener has.
func TestRouteConflictsFollow(t *testing.T) {
	for seed := range uint64(20) {
		w := &gatewayWorld{random: rand.New(rand.NewPCG(seed, 1)), facts: snapshot.New(), names: 3}
		var changed []snapshot.Ref
		for _, object := range gatewaysOf("one", "two") {
			changed = append(changed, w.facts.Put(object)...)
		}
		followed, table := engine.New(w.facts, gatewayOptions()), route.NewIndex()
		for range 60 {
			result := followed.Update(changed)
			table.Apply(table.Fit(&result.Change))
			fresh, freshTable := engine.New(w.facts, gatewayOptions()), route.NewIndex()
			all := fresh.All()
			freshTable.Apply(freshTable.Fit(&all.Change))
			if got, want := encoded(t, &route.Table{Rules: table.Table().Rules}), encoded(t, &route.Table{Rules: freshTable.Table().Rules}); got != want {
				t.Fatalf("seed %d, step %d: %s", seed, w.steps, firstDifference(got, want))
			}
			for _, kind := range snapshot.GatewayKinds() {
				for namespace, name := range w.facts.Names(kind) {
					ref := snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}
					if got, want := followed.GatewayStatus(ref), fresh.GatewayStatus(ref); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, step %d: %v is\n%+v, want\n%+v", seed, w.steps, ref, got, want)
					}
				}
			}
			changed = w.step()
		}
	}
}

// TestConflictIndex: after any change, of one route or of several at once, the routes that
// conflict are those that comparing each with each finds, also where a change concerns more
// routes than are looked at one by one.
func TestConflictIndex(t *testing.T) {
	conflicts := 0
	for seed := range uint64(24) {
		w := &gatewayWorld{random: rand.New(rand.NewPCG(seed, 2)), facts: snapshot.New(), names: []int{2, 6, 20}[seed%3]}
		var changed []snapshot.Ref
		for _, object := range gatewaysOf("one", "two") {
			changed = append(changed, w.facts.Put(object)...)
		}
		followed := engine.New(w.facts, gatewayOptions())
		if seed%4 == 0 {
			followed.LimitConflictVisits(int(seed))
		}
		for range 150 {
			followed.Update(changed)
			for _, name := range []string{"one", "two"} {
				at := snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: name}
				got, want := followed.Conflicts(at), followed.PlainConflicts(at)
				if conflicts += len(want); !maps.Equal(got, want) {
					t.Fatalf("seed %d, step %d, Gateway %s: conflicts are\n%v, want\n%v", seed, w.steps, name, got, want)
				}
			}
			changed = nil
			for range 1 + w.random.IntN(3) {
				changed = append(changed, w.step()...)
			}
		}
	}
	if conflicts == 0 {
		t.Error("no route conflicted")
	}
}

// TestRefusedRouteConflictsWithNone: a route that is refused because its host belongs to
// another namespace keeps no route of the other kind out.
func TestRefusedRouteConflictsWithNone(t *testing.T) {
	facts := snapshot.New()
	for _, object := range gatewaysOf("one", "two") {
		facts.Put(object)
	}
	put := func(kind snapshot.Kind, namespace, name, gateway string, age int64, host gatewayv1.Hostname) snapshot.Ref {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(age, 0)}
		facts.Put(routeOf(kind, meta, []gatewayv1.ParentReference{parentOf(gateway, "http")}, host))
		return snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}
	}
	all := []struct {
		ref  snapshot.Ref
		want gatewayv1.RouteConditionReason
	}{
		{put(snapshot.HTTPRoute, "corp", "owner", "two", 1, "*.x"), gatewayv1.RouteReasonAccepted},
		{put(snapshot.HTTPRoute, "bank", "all", "one", 2, "*.x"), "HostNotGranted"},
		{put(snapshot.GRPCRoute, "bank", "calls", "one", 3, "a.x"), gatewayv1.RouteReasonAccepted},
		{put(snapshot.HTTPRoute, "bank", "web", "one", 4, "a.x"), "Conflicted"},
		{put(snapshot.GRPCRoute, "evil", "calls", "one", 5, "a.x"), "HostNotGranted"},
	}
	followed := engine.New(facts, gatewayOptions())
	followed.All()
	for _, one := range all {
		if got := followed.GatewayStatus(one.ref).Parents[0].Conditions[0].Reason; got != string(one.want) {
			t.Errorf("%v: %s, want %s", one.ref, got, one.want)
		}
	}
	// Without the owner the host is that of bank, and the route keeps its younger one out.
	followed.Update(facts.Delete(snapshot.HTTPRoute, "corp", "owner"))
	if got := followed.GatewayStatus(all[2].ref).Parents[0].Conditions[0].Reason; got != "Conflicted" {
		t.Errorf("beside the older route: %s", got)
	}
}

// TestConflictsOfNamespaces: a route without a host name, or with a wildcard, keeps no route
// for a host of another namespace out, and such a route does not keep it out. The same host
// name of two namespaces conflicts, and with shared hosts so do all.
func TestConflictsOfNamespaces(t *testing.T) {
	facts := snapshot.New()
	for _, object := range gatewaysOf("one") {
		facts.Put(object)
	}
	age := int64(0)
	put := func(kind snapshot.Kind, namespace, name string, hosts ...gatewayv1.Hostname) snapshot.Ref {
		age++
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(age, 0)}
		facts.Put(routeOf(kind, meta, []gatewayv1.ParentReference{parentOf("one", "http")}, hosts...))
		return snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}
	}
	const accepted, conflicted = string(gatewayv1.RouteReasonAccepted), "Conflicted"
	all := []struct {
		ref          snapshot.Ref
		want, shared string
	}{
		{put(snapshot.GRPCRoute, "evil", "all"), accepted, accepted},
		{put(snapshot.GRPCRoute, "evil", "wide", "*.x"), accepted, accepted},
		{put(snapshot.HTTPRoute, "bank", "narrow", "a.x"), accepted, conflicted},
		{put(snapshot.HTTPRoute, "bank", "wildcard", "*.a.x"), accepted, conflicted},
		{put(snapshot.HTTPRoute, "bank", "all"), conflicted, conflicted},
		{put(snapshot.HTTPRoute, "evil", "own", "b.x"), conflicted, conflicted},
		{put(snapshot.GRPCRoute, "evil", "below", "b.a.x"), accepted, accepted},
	}
	for _, sharing := range []resolve.HostSharing{resolve.HostSharingDeny, resolve.HostSharingBehind, resolve.HostSharingOpen} {
		options := gatewayOptions()
		options.HostSharing = sharing
		followed := engine.New(facts, options)
		followed.All()
		for _, one := range all {
			want := one.want
			if sharing != resolve.HostSharingDeny {
				want = one.shared
			}
			if got := followed.GatewayStatus(one.ref).Parents[0].Conditions[0].Reason; got != want {
				t.Errorf("%s: %v is %s, want %s", sharing, one.ref, got, want)
			}
		}
	}
}

// BenchmarkNewRoute: a route that comes and goes at a Gateway with many others, without
// and with GRPCRoutes among them. The cost must not follow the number of routes.
func BenchmarkNewRoute(b *testing.B) {
	for _, routes := range []int{500, 5000, 20000} {
		for _, grpc := range []int{0, 1, routes / 2} {
			b.Run(fmt.Sprintf("http=%d/grpc=%d", routes, grpc), func(b *testing.B) { benchmarkNewRoute(b, routes, grpc) })
		}
	}
}

func benchmarkNewRoute(b *testing.B, routes, grpc int) {
	facts, parents := snapshot.New(), []gatewayv1.ParentReference{parentOf("one", "http")}
	for _, object := range gatewaysOf("one") {
		facts.Put(object)
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(1, 0)}
	}
	for i := range routes {
		facts.Put(routeOf(snapshot.HTTPRoute, meta(fmt.Sprintf("r%d", i)), parents, gatewayv1.Hostname(fmt.Sprintf("r%d.example", i))))
	}
	for i := range grpc {
		facts.Put(routeOf(snapshot.GRPCRoute, meta(fmt.Sprintf("g%d", i)), parents, gatewayv1.Hostname(fmt.Sprintf("g%d.example", i))))
	}
	followed := engine.New(facts, gatewayOptions())
	followed.All()
	update := func(changed []snapshot.Ref) {
		followed.Update(changed)
		for range followed.ChangedConditions() {
		}
		for range followed.ChangedGatewayStatuses() {
		}
	}
	update(nil)
	added := routeOf(snapshot.HTTPRoute, meta("new"), parents, "new.example")
	b.ReportAllocs()
	for b.Loop() {
		update(facts.Put(added))
		update(facts.Delete(snapshot.HTTPRoute, "shop", "new"))
	}
}
