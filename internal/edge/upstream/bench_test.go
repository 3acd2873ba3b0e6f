package upstream_test

import (
	"fmt"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// use is what a request costs here, apart from its bytes.
func use(tb testing.TB, h *upstream.Handle) {
	lease, err := h.Pick(upstream.PickOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := lease.Connect(tb.Context(), 0, false)
	if err != nil {
		tb.Fatal(err)
	}
	conn.Release()
	lease.Done(upstream.OK)
}

func BenchmarkUse(b *testing.B) {
	trusted := pkitest.NewAuthority(b)
	config := serving(b, trusted.Issue(b, "cart"))
	secure := secured(securePod(b, config).address, &route.UpstreamTLS{Authority: authorityID, ServerName: "cart"}, trusted.PEM, nil)
	plain := &route.Table{Backends: []*route.Backend{cart(newPod(b).address)}}
	for _, bench := range []struct {
		name  string
		table *route.Table
		check time.Duration
	}{
		{"plain", plain, time.Hour},
		{"looked", plain, always}, // with a look at the socket each time
		{"tls", secure, time.Hour},
	} {
		w := newWorld(b, upstream.Config{CheckAfter: bench.check})
		w.become(bench.table)
		h := w.Handle(shop)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				use(b, h)
			}
		})
		b.Run(bench.name+"Parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					use(b, h)
				}
			})
		})
	}
}

func BenchmarkPick(b *testing.B) {
	for _, bench := range []struct {
		name    string
		method  route.BalanceMethod
		weights int
		n       int
	}{
		{"roundRobin", route.BalanceRoundRobin, 1, 10},
		{"smooth", route.BalanceRoundRobin, 3, 10},
		{"leastRequests", route.BalanceLeastRequests, 1, 10},
		{"leastRequestsWeighted", route.BalanceLeastRequests, 3, 10},
		{"leastTime", route.BalanceLeastTime, 1, 10},
		{"hash", route.BalanceHash, 1, 10},
		{"hash", route.BalanceHash, 1, 1000},
		{"hashWeighted", route.BalanceHash, 3, 10},
	} {
		backend := cart(pods(bench.n)...)
		backend.Balancing.Method = bench.method
		for i := range backend.Endpoints {
			backend.Endpoints[i].Weight = uint32(1 + i%bench.weights)
		}
		w := newWorld(b, upstream.Config{})
		w.serve(backend)
		h := w.Handle(shop)
		one := func(choice upstream.PickOptions) {
			lease, err := h.Pick(choice)
			if err != nil {
				b.Fatal(err)
			}
			lease.Done(upstream.OK)
		}
		b.Run(fmt.Sprintf("%s/%d", bench.name, bench.n), func(b *testing.B) {
			b.ReportAllocs()
			choice := upstream.PickOptions{HasHash: true}
			for b.Loop() {
				choice.Hash++
				one(choice)
			}
		})
		b.Run(fmt.Sprintf("%s/%d/parallel", bench.name, bench.n), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				choice := upstream.PickOptions{HasHash: true}
				for pb.Next() {
					choice.Hash++
					one(choice)
				}
			})
		})
	}
}

// BenchmarkBuffer is what it costs that an idle connection keeps no buffer.
func BenchmarkBuffer(b *testing.B) {
	var pool h1.BufferPool
	b.ReportAllocs()
	for b.Loop() {
		pool.Put(pool.Get(1))
	}
}

// BenchmarkApply changes one endpoint of one backend among many.
func BenchmarkApply(b *testing.B) {
	w := newWorld(b, upstream.Config{})
	table := &route.Table{}
	for i := range 10_000 {
		backend := cart(pods(3)...)
		backend.ID.Name = fmt.Sprint(i)
		table.Backends = append(table.Backends, backend)
	}
	w.become(table)
	both := [2]*route.Backend{cart(pods(3)...), cart(pods(4)...)}
	w.Apply(&route.Change{Backends: route.BackendDelta{Delta: route.Delta[route.BackendID, route.Backend]{Added: both[:1]}}})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		w.Apply(&route.Change{Backends: route.BackendDelta{EndpointsChanged: both[i%2 : i%2+1]}})
	}
}

func TestUseDoesNotAllocate(t *testing.T) {
	for _, method := range []route.BalanceMethod{route.BalanceLeastRequests, route.BalanceRoundRobin, route.BalanceLeastTime} {
		w := newWorld(t, upstream.Config{CheckAfter: time.Hour})
		b := cart(newPod(t).address, newPod(t).address)
		b.Balancing.Method = method
		w.serve(b)
		h := w.Handle(shop)
		for range 20 {
			use(t, h) // until both have a connection
		}
		if got := testing.AllocsPerRun(200, func() { use(t, h) }); got != 0 {
			t.Errorf("%s: %v allocations for each request, want none", method, got)
		}
	}
}
