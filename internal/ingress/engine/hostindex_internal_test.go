package engine

import (
	"math/rand/v2"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/route"
)

// TestHostIndex: the index finds the host name that comparing with each of them finds.
func TestHostIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		var labels []string
		for range random.IntN(4) {
			labels = append(labels, string(rune('a'+random.IntN(2))))
		}
		if host := strings.Join(labels, "."); host == "" || random.IntN(3) > 0 {
			return host
		}
		return "*." + strings.Join(labels, ".")
	}
	at := func() route.ListenerID { return route.ListenerID{Port: uint16(80 + random.IntN(2))} }
	for round := range 2000 {
		namespace := func() string {
			if round%2 == 0 {
				return ""
			}
			return []string{"bank", "evil"}[random.IntN(2)]
		}
		index, all := hostIndex{}, []hostAt(nil)
		for place := range random.IntN(6) {
			one := hostAt{at(), name(), namespace()}
			all = append(all, one)
			index.add(one, place)
		}
		asked := hostAt{at(), name(), namespace()}
		want, shared := 0, false
		for place, one := range all {
			if _, common := gateway.Intersect(one.host, asked.host); common && one.listener == asked.listener && (one.namespace == asked.namespace || one.host == asked.host) {
				want, shared = place, true
				break
			}
		}
		if got, found := index.first(asked); found != shared || got != want {
			t.Fatalf("%v among %v: got %d, %t, want %d, %t", asked, all, got, found, want, shared)
		}
	}
}
