package upstream_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestHandleBeforeAndAfterItsBackend(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	h := w.Handle(shop)
	if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoBackend) {
		t.Errorf("before: error %v, want ErrNoBackend", err)
	}
	w.serve(cart(pods(1)...))
	if w.Handle(shop) != h {
		t.Error("the backend came under another handle")
	}
	lease := pick(t, h, upstream.PickOptions{})
	lease.Done(upstream.OK)
	w.serve(cart())
	if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoEndpoint) {
		t.Errorf("without endpoints: error %v, want ErrNoEndpoint", err)
	}
	w.become(&route.Table{})
	if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoBackend) {
		t.Errorf("after: error %v, want ErrNoBackend", err)
	}
	if w.Handle(shop) != h {
		t.Error("the handle changed when the backend left")
	}
	w.serve(cart(pods(1)...))
	lease = pick(t, h, upstream.PickOptions{})
	lease.Done(upstream.OK)
}

// Names that come and go must not add up, and those that are held must stay.
func TestHandlesOfMissingBackends(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	held := w.Handle(shop)
	var dropped []weak.Pointer[upstream.Handle]
	for i := range 1000 {
		dropped = append(dropped, weak.Make(w.Handle(route.BackendID{Namespace: "gone", Name: fmt.Sprint(i), Port: 80})))
	}
	programs.Until(t, "the end of handles that nobody holds", func() bool {
		runtime.GC()
		return !slices.ContainsFunc(dropped, func(h weak.Pointer[upstream.Handle]) bool { return h.Value() != nil })
	})
	if w.Handle(shop) != held {
		t.Error("a handle that is held was forgotten")
	}
}

func TestPoolSurvivesChanges(t *testing.T) {
	stays, comes := newPod(t), newPod(t)
	base := func() *route.Backend { return cart(stays.address) }
	for _, test := range []struct {
		name   string
		change func(*route.Backend)
	}{
		{"endpointAdded", func(b *route.Backend) {
			b.Endpoints = append(b.Endpoints, route.Endpoint{Address: netip.MustParseAddrPort(comes.address), State: route.EndpointDraining})
		}},
		{"weight", func(b *route.Backend) { b.Endpoints[0].Weight = 7 }},
		{"zone", func(b *route.Backend) { b.Endpoints[0].Zone = "b" }},
		{"balancing", func(b *route.Backend) { b.Balancing.Method = route.BalanceRoundRobin }},
		{"sticky", func(b *route.Backend) { b.Sticky = &route.StickyCookie{} }},
		{"host", func(b *route.Backend) { b.Transport.Host = "cart.example.com" }},
		{"protocolSpelt", func(b *route.Backend) { b.Transport.Protocol = route.ProtocolHTTP1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(base())
			h := w.Handle(shop)
			before := roundTrip(t, h)
			changed := base()
			test.change(changed)
			w.serve(changed)
			if after := roundTrip(t, h); after != before {
				t.Errorf("connection %s after the change, %s before it", after, before)
			}
			if got := w.state(t, stays.address); got.Totals["ok"] != 2 {
				t.Errorf("%d requests were counted, want 2", got.Totals["ok"])
			}
		})
	}
}

func TestEndpointLeaves(t *testing.T) {
	leaves, stays := newPod(t), newPod(t)
	for _, test := range []struct {
		name  string
		table *route.Table
	}{
		{"endpoint", &route.Table{Backends: []*route.Backend{cart(stays.address)}}},
		{"backend", &route.Table{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(cart(leaves.address))
			h := w.Handle(shop)
			lease := pick(t, h, upstream.PickOptions{})
			used, idle := connect(t, &lease), connect(t, &lease)
			idlePeer := get(t, idle)
			idle.Release()

			w.become(test.table)
			if got := programs.Receive(t, leaves.closed, "the end of the idle connection"); got != idlePeer {
				t.Errorf("connection %s was closed, want the idle one, %s", got, idlePeer)
			}
			// The request that runs is not disturbed.
			usedPeer := get(t, used)
			used.Release()
			lease.Done(upstream.OK)
			if got := programs.Receive(t, leaves.closed, "the end of the used connection"); got != usedPeer {
				t.Errorf("connection %s was closed, want %s", got, usedPeer)
			}
			if _, err := h.Pick(upstream.PickOptions{Avoid: lease.Endpoint()}); test.name == "backend" && !errors.Is(err, upstream.ErrNoBackend) {
				t.Errorf("error %v, want ErrNoBackend", err)
			}
		})
	}
}

func TestLeaseOfAnEndpointThatLeftStillConnects(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	w.become(&route.Table{})
	conn := connect(t, &lease)
	peer := get(t, conn)
	conn.Release()
	lease.Done(upstream.OK)
	if got := programs.Receive(t, p.closed, "the end of the connection"); got != peer {
		t.Errorf("connection %s was closed, want %s", got, peer)
	}
}

func TestBrokenBackends(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	good := trusted.Issue(t, "edge")
	ca := route.AuthorityID{Namespace: "shop", Name: "ca"}
	pair := route.CertificateID{Namespace: "shop", Name: "edge"}
	with := func(tls route.UpstreamTLS) route.Transport {
		return route.Transport{Protocol: route.ProtocolTLS, TLS: &tls}
	}
	for _, test := range []struct {
		name      string
		transport route.Transport
		table     route.Table
		want      string
	}{
		{name: "unknownProtocol", transport: route.Transport{Protocol: "gopher"},
			want: `the protocol "gopher" is not known; use http1, h2c, tls, h2 or alpn`},
		{name: "settingsWithoutTLS", transport: route.Transport{TLS: &route.UpstreamTLS{ServerName: "cart"}},
			want: "there are settings for TLS, but the protocol has none; set it to tls, h2 or alpn, or remove them"},
		{name: "noAuthority", transport: with(route.UpstreamTLS{Authority: ca}),
			want: "the table has no authority shop/ca; create it, or name another"},
		{name: "badAuthority", transport: with(route.UpstreamTLS{Authority: ca}),
			table: route.Table{Authorities: []*route.Authority{{ID: ca, Bundle: "-----BEGIN JUNK-----"}}},
			want:  "the authority shop/ca has no certificate that can be read; put its certificates there as PEM, 1048576 bytes at most"},
		{name: "noCertificate", transport: with(route.UpstreamTLS{Certificate: pair}),
			want: "the table has no certificate shop/edge; create it, or name another"},
		{name: "badKey", transport: with(route.UpstreamTLS{Certificate: pair}),
			table: route.Table{Certificates: []*route.Certificate{{ID: pair, Chain: good.Chain, Key: route.NewSecret("junk")}}},
			want: "the certificate shop/edge cannot be shown to backends: " +
				"tls: failed to find any PEM data in key input; put a PEM certificate and its own key there"},
		{name: "skipVerifyWithAuthority", transport: with(route.UpstreamTLS{Authority: ca, SkipVerify: true}),
			table: route.Table{Authorities: []*route.Authority{{ID: ca, Bundle: trusted.PEM}}},
			want:  "there is an authority, and it is not to be verified against; remove one of the two"},
	} {
		t.Run(test.name, func(t *testing.T) {
			healthy := cart(pods(1)...)
			healthy.ID.Name = "healthy"
			w := newWorld(t, upstream.Config{})
			w.serve(cart(pods(1)...))

			b := cart(pods(1)...)
			b.Transport = test.transport
			test.table.Backends = []*route.Backend{b, healthy}
			w.become(&test.table)
			_, err := w.Handle(shop).Pick(upstream.PickOptions{})
			var broken *upstream.BrokenError
			if !errors.As(err, &broken) || broken.Reason != test.want {
				t.Errorf("error %v\nwant a BrokenError: %s", err, test.want)
			}
			if got := w.Snapshot()[0].Broken; got != test.want {
				t.Errorf("the snapshot says %q, want %q", got, test.want)
			}
			lease := pick(t, w.Handle(healthy.ID), upstream.PickOptions{})
			lease.Done(upstream.OK)

			w.serve(cart(pods(1)...))
			lease = pick(t, w.Handle(shop), upstream.PickOptions{})
			lease.Done(upstream.OK)
		})
	}
}

// Every request sees the endpoints of before or those of after, and none of a
// backend that is being changed fails.
func TestChangesUnderLoad(t *testing.T) {
	var list []string
	for range 4 {
		list = append(list, newPod(t).address)
	}
	w := newWorld(t, upstream.Config{})
	w.serve(cart(list...))
	h := w.Handle(shop)
	var running sync.WaitGroup
	var stopped atomic.Bool
	for range 4 {
		running.Go(func() {
			for !stopped.Load() {
				if t.Failed() {
					return
				}
				lease, err := h.Pick(upstream.PickOptions{})
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				conn, err := lease.Connect(t.Context(), testTimeout, false)
				if err != nil {
					t.Errorf("connect: %v", err)
					return
				}
				conn.Release()
				lease.Done(upstream.OK)
			}
		})
	}
	methods := []route.BalanceMethod{"", route.BalanceRoundRobin, route.BalanceHash, route.BalanceLeastTime}
	for i := range 400 {
		b := cart(list[i%4], list[(i+1)%4])
		b.Balancing.Method = methods[i/4%4]
		b.Endpoints[0].Weight = uint32(i % 3)
		if i%5 == 0 {
			b.Sticky = &route.StickyCookie{}
		}
		w.serve(b)
	}
	stopped.Store(true)
	running.Wait()
	w.become(&route.Table{})
	if got := w.Stats(); got.Ejections != 0 {
		t.Errorf("%d ejections, want none", got.Ejections)
	}
}

// Validate reports such a list; the rest of it is served.
func TestListWithFaults(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	b := weighted(route.BalanceRoundRobin, 0, 0)
	b.Endpoints = append(b.Endpoints, b.Endpoints[0], route.Endpoint{})
	w.serve(b)
	if got := sequence(t, w.Handle(shop), 4); got != "abab" {
		t.Errorf("order %s, want abab", got)
	}
	w.serve(&route.Backend{ID: shop, Endpoints: []route.Endpoint{{}}})
	if _, err := w.Handle(shop).Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoEndpoint) {
		t.Errorf("error %v, want ErrNoEndpoint", err)
	}
}

func TestTransportFacts(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	h := w.Handle(shop)
	if got := *h.Transport(); got != (upstream.Transport{}) {
		t.Errorf("transport %+v of a backend that is not there", got)
	}
	b := cart(pods(1)...)
	b.Transport = route.Transport{Protocol: route.ProtocolTLS, HostOfEndpoint: true}
	b.Balancing = route.Balancing{Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyClient}}
	b.Sticky = &route.StickyCookie{Name: "seat", Secure: true}
	w.serve(b)
	lease := pick(t, h, upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	got := *lease.Transport()
	if got.Sticky == nil || *got.Sticky != *b.Sticky {
		t.Errorf("sticky cookie %+v, want %+v", got.Sticky, b.Sticky)
	}
	if got.Hash == nil || *got.Hash != b.Balancing.Hash {
		t.Errorf("hash %+v, want %+v", got.Hash, b.Balancing.Hash)
	}
	got.Sticky, got.Hash = nil, nil
	if want := (upstream.Transport{TLS: true, HostOfEndpoint: true}); got != want {
		t.Errorf("transport %+v, want %+v", got, want)
	}
}
