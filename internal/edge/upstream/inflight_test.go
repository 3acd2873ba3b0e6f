package upstream_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// full fails the test when there is still room.
func full(t *testing.T, h *upstream.Handle) {
	t.Helper()
	lease, err := h.Pick(upstream.PickOptions{})
	var overload *upstream.OverloadError
	if !errors.As(err, &overload) || !errors.Is(err, upstream.ErrOverloaded) || overload.RetryAfter <= 0 {
		t.Errorf("error %v, want an OverloadError", err)
	}
	lease.Done(upstream.Cancelled)
}

// TestMaxInFlight: a backend bounds its requests as a whole, or those of each
// endpoint, or both.
func TestMaxInFlight(t *testing.T) {
	for _, test := range []struct {
		name                string
		all, each, fallback int64
		endpoints           int
		room                int
	}{
		{"all", 5, 0, 0, 3, 5},
		{"each", 0, 2, 0, 3, 6},
		{"both", 4, 2, 0, 3, 4},
		{"eachBeforeDefault", 0, 2, 1, 3, 6},
		{"default", 0, 0, 1, 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{MaxInFlightPerEndpoint: test.fallback})
			b := cart(pods(test.endpoints)...)
			b.MaxInFlight, b.MaxInFlightPerEndpoint = test.all, test.each
			w.serve(b)
			h := w.Handle(shop)
			var leases []upstream.Lease
			for range test.room {
				leases = append(leases, pick(t, h, upstream.PickOptions{}))
			}
			full(t, h)
			leases[0].Done(upstream.OK)
			leases[0].Done(upstream.OK)
			leases[0] = pick(t, h, upstream.PickOptions{})
			full(t, h)
			for i := range leases {
				leases[i].Done(upstream.Reset)
			}
			if got := w.Stats().Overloads; got != 2 {
				t.Errorf("%d overloads were counted, want 2", got)
			}
		})
	}
}

// TestMaxInFlightChanges: requests that run keep counting when the bound comes,
// goes or moves, each as it was counted.
func TestMaxInFlightChanges(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	h := w.Handle(shop)
	bound := func(most int64, addresses ...string) {
		b := cart(addresses...)
		b.MaxInFlight = most
		w.serve(b)
	}
	bound(2, pods(1)...)
	first, second := pick(t, h, upstream.PickOptions{}), pick(t, h, upstream.PickOptions{})
	full(t, h)
	// Requests of an endpoint that left are still the backend's.
	bound(3, pods(2)[1])
	third := pick(t, h, upstream.PickOptions{})
	full(t, h)
	bound(0, pods(1)...)
	free := pick(t, h, upstream.PickOptions{})
	bound(2, pods(1)...)
	full(t, h)
	for _, lease := range []*upstream.Lease{&first, &second, &third, &free} {
		lease.Done(upstream.OK)
	}
	first, second = pick(t, h, upstream.PickOptions{}), pick(t, h, upstream.PickOptions{})
	full(t, h)
	first.Done(upstream.OK)
	second.Done(upstream.OK)
	// A choice that fails leaves nothing behind.
	b := cart()
	b.MaxInFlight = 1
	b.Endpoints = []route.Endpoint{{Address: cart(pods(1)...).Endpoints[0].Address, State: route.EndpointDraining}}
	w.serve(b)
	for range 3 {
		if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoEndpoint) {
			t.Errorf("error %v, want ErrNoEndpoint", err)
		}
	}
}

// TestMaxInFlightInParallel: the bound holds at every moment.
func TestMaxInFlightInParallel(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	b := cart(pods(4)...)
	b.MaxInFlight = 3
	w.serve(b)
	h := w.Handle(shop)
	var running, most atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 2000 {
				lease, err := h.Pick(upstream.PickOptions{})
				if err != nil {
					continue
				}
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				running.Add(-1)
				lease.Done(upstream.OK)
			}
		})
	}
	workers.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests at once, want 3 at most", most.Load())
	}
	for range 3 {
		lease := pick(t, h, upstream.PickOptions{})
		defer lease.Done(upstream.OK)
	}
	full(t, h)
}
