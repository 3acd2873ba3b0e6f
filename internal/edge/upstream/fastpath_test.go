package upstream_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// TestPickPlain: only a backend with one endpoint and no options takes the fast path, and it
// does so no longer than that.
func TestPickPlain(t *testing.T) {
	one := pods(1)
	for _, test := range []struct {
		name   string
		change func(*route.Backend)
		plain  bool
	}{
		{"plain", func(*route.Backend) {}, true},
		{"two endpoints", func(b *route.Backend) { b.Endpoints = cart(pods(2)...).Endpoints }, false},
		{"none", func(b *route.Backend) { b.Endpoints = nil }, false},
		{"draining", func(b *route.Backend) { b.Endpoints[0].State = route.EndpointDraining }, false},
		{"sticky", func(b *route.Backend) { b.Sticky = &route.StickyCookie{Name: "seat"} }, false},
		{"bounded", func(b *route.Backend) { b.MaxInFlight = 9 }, false},
		{"each bounded", func(b *route.Backend) { b.MaxInFlightPerEndpoint = 9 }, false},
		{"encrypted", func(b *route.Backend) { b.Transport.Protocol = route.ProtocolTLS }, false},
		{"another host", func(b *route.Backend) { b.Transport.HostOfEndpoint = true }, false},
		{"by hash", func(b *route.Backend) {
			b.Balancing = route.Balancing{Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyClient}}
		}, false},
		{"by time", func(b *route.Backend) { b.Balancing.Method = route.BalanceLeastTime }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			h := w.Handle(shop)
			plain := func() bool {
				lease, ok := h.PickFast()
				lease.Done(upstream.Cancelled)
				return ok
			}
			if plain() {
				t.Error("a backend that is not there is plain")
			}
			w.serve(cart(one...))
			if !plain() {
				t.Error("it is not plain before the change")
			}
			b := cart(one...)
			test.change(b)
			w.serve(b)
			if got := plain(); got != test.plain {
				t.Errorf("after the change it is plain: %v, want %v", got, test.plain)
			}
			w.become(&route.Table{})
			if plain() {
				t.Error("a backend that is gone is plain")
			}
		})
	}
}

// TestPlainLease: it is counted and judged as others are, and connects even when
// its backend is another one by then, or gone.
func TestPlainLease(t *testing.T) {
	p := newPod(t)
	sticky := cart(p.address)
	sticky.Sticky = &route.StickyCookie{Name: "seat"}
	for name, table := range map[string]*route.Table{
		"same": {Backends: []*route.Backend{cart(p.address)}}, "sticky": {Backends: []*route.Backend{sticky}}, "gone": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(cart(p.address))
			h := w.Handle(shop)
			lease, ok := h.PickFast()
			if !ok || lease.Endpoint().Address() != p.address || *lease.Transport() != (upstream.Transport{}) {
				t.Fatalf("got %v, %+v", ok, lease)
			}
			if got := w.Snapshot()[0].Endpoints[0].InFlight; got != 1 {
				t.Errorf("%d requests are in flight", got)
			}
			w.become(table)
			conn := connect(t, &lease)
			get(t, conn)
			if got := lease.Transport(); got.Sticky != nil || got.TLS {
				t.Errorf("the transport is %+v", got)
			}
			conn.Release()
			lease.Done(upstream.OK)
		})
	}
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	for range 20 {
		if lease, ok := w.Handle(shop).PickFast(); ok {
			lease.Done(upstream.Reset)
		}
	}
	if _, ok := w.Handle(shop).PickFast(); !ok {
		t.Error("the last endpoint of a backend is never given up")
	}
}
