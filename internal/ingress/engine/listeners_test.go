package engine_test

import (
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// BenchmarkListener: one of many Gateways, each with a route for all hosts, gets a listener
// and loses it. The cost must not follow the number of Gateways.
func BenchmarkListener(b *testing.B) {
	for _, gateways := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("gateways=%d", gateways), func(b *testing.B) { benchmarkListener(b, gateways) })
	}
}

func benchmarkListener(b *testing.B, gateways int) {
	facts := snapshot.New()
	for i := range gateways {
		name := fmt.Sprintf("g%d", i)
		for _, object := range gatewaysOf(name) {
			if gateway, ok := object.(*gatewayv1.Gateway); ok {
				gateway.Spec.Addresses = nil
				gateway.Spec.Listeners = gateway.Spec.Listeners[:1]
			}
			facts.Put(object)
		}
		meta := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(1, 0)}
		facts.Put(routeOf(snapshot.HTTPRoute, meta, []gatewayv1.ParentReference{parentOf(name, "")}))
	}
	followed := engine.New(facts, resolve.Options{Gateways: resolve.GatewayOptions{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}})
	followed.All()
	statuses := 0
	update := func(changed []snapshot.Ref) {
		result := followed.Update(changed)
		followed.NoteRules(&result.Change, nil)
		followed.NoteListeners(&result.Change, nil)
		for range followed.ChangedConditions() {
		}
		for range followed.ChangedGatewayStatuses() {
			statuses++
		}
	}
	update(nil)
	statuses = 0
	generation := int64(1)
	with := func(listeners int) []snapshot.Ref {
		changed := gatewaysOf("g0")[1].(*gatewayv1.Gateway)
		generation++
		changed.Generation, changed.Spec.Addresses, changed.Spec.Listeners = generation, nil, changed.Spec.Listeners[:listeners]
		return facts.Put(changed)
	}
	b.ReportAllocs()
	for b.Loop() {
		update(with(2))
		update(with(1))
	}
	b.ReportMetric(float64(statuses)/float64(b.N), "statuses/op")
}
