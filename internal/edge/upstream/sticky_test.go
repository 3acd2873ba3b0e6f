package upstream_test

import (
	"errors"
	"regexp"
	"testing"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

func stickyCart(weights ...uint32) *route.Backend {
	b := weighted(route.BalanceRoundRobin, weights...)
	b.Sticky = &route.StickyCookie{}
	return b
}

// values are the sticky values of three endpoints.
func stickyValues(t *testing.T, key string, backend *route.Backend) map[string]string {
	t.Helper()
	w := newWorld(t, upstream.Config{StickyKey: route.NewSecret(key)})
	w.serve(backend)
	values := map[string]string{}
	for range 3 {
		lease := pick(t, w.Handle(backend.ID), upstream.PickOptions{})
		values[letter(&lease)] = lease.StickyValue()
		lease.Done(upstream.OK)
	}
	return values
}

func TestStickyValues(t *testing.T) {
	values := stickyValues(t, "key", stickyCart(0, 0, 0))
	seen := map[string]bool{}
	for name, value := range values {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{12}$`).MatchString(value) || seen[value] {
			t.Errorf("the value of %s is %q; want 12 plain characters of its own", name, value)
		}
		seen[value] = true
	}
	// The value is for browsers to keep: it has to be the same for ever.
	if want := "o0R-VhMISgeh"; values["a"] != want {
		t.Errorf("the value of a is %q, want %q", values["a"], want)
	}
	if again := stickyValues(t, "key", stickyCart(0, 0, 0)); again["a"] != values["a"] {
		t.Error("another process gives another value")
	}
	if other := stickyValues(t, "other", stickyCart(0, 0, 0)); other["a"] == values["a"] {
		t.Error("the value does not depend on the key")
	}
	elsewhere := stickyCart(0, 0, 0)
	elsewhere.ID.Namespace = "blog"
	if other := stickyValues(t, "key", elsewhere); other["a"] == values["a"] {
		t.Error("the value of one address is the same in two backends")
	}
}

func TestStickyCookieName(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(stickyCart(0))
	if got := w.Handle(shop).Transport().Sticky.Name; got != "slipway_9749a35c" {
		t.Errorf("the cookie's name is %q", got)
	}
}

func TestStickyClients(t *testing.T) {
	w := newWorld(t, upstream.Config{MaxInFlightPerEndpoint: 1, Ejection: upstream.Ejection{Failures: 1}})
	w.serve(stickyCart(0, 0, 0))
	h := w.Handle(shop)
	first := pick(t, h, upstream.PickOptions{})
	home, value := first.Endpoint(), first.StickyValue()
	first.Done(upstream.OK)

	t.Run("stay", func(t *testing.T) {
		for range 5 {
			lease := pick(t, h, upstream.PickOptions{Sticky: value})
			if lease.Endpoint() != home {
				t.Error("the client was sent elsewhere")
			}
			lease.Done(upstream.OK)
		}
	})
	t.Run("stayWhenItIsBusy", func(t *testing.T) {
		lease := pick(t, h, upstream.PickOptions{Sticky: value})
		defer lease.Done(upstream.OK)
		if _, err := h.Pick(upstream.PickOptions{Sticky: value}); !errors.Is(err, upstream.ErrOverloaded) {
			t.Errorf("error %v, want ErrOverloaded", err)
		}
	})
	t.Run("madeUp", func(t *testing.T) {
		lease := pick(t, h, upstream.PickOptions{Sticky: "made up"})
		lease.Done(upstream.OK)
	})
	t.Run("avoid", func(t *testing.T) {
		lease := pick(t, h, upstream.PickOptions{Sticky: value, Avoid: home})
		if lease.Endpoint() == home || lease.StickyValue() == value {
			t.Error("the endpoint to avoid was chosen")
		}
		lease.Done(upstream.OK)
	})
	t.Run("ejected", func(t *testing.T) {
		w.serve(stickyCart(0, 0, 0))
		lease := pick(t, h, upstream.PickOptions{Sticky: value})
		lease.Done(upstream.Reset)
		lease = pick(t, h, upstream.PickOptions{Sticky: value})
		if lease.Endpoint() == home {
			t.Error("the client was sent to an endpoint that is ejected")
		}
		lease.Done(upstream.OK)
	})
	t.Run("notConfigured", func(t *testing.T) {
		w.serve(weighted(route.BalanceRoundRobin, 0, 0, 0))
		lease := pick(t, h, upstream.PickOptions{Sticky: value})
		if got := lease.StickyValue(); got != "" {
			t.Errorf("the value is %q without a sticky cookie", got)
		}
		lease.Done(upstream.OK)
	})
}

func TestDrainingKeepsItsClients(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(stickyCart(0, 0, 0))
	h := w.Handle(shop)
	client := pick(t, h, upstream.PickOptions{})
	home, value := client.Endpoint(), client.StickyValue()
	client.Done(upstream.OK)

	b := stickyCart(0, 0, 0)
	b.Endpoints[0].State = route.EndpointDraining
	w.serve(b)
	if got := w.state(t, home.Address()).State; got != route.EndpointDraining {
		t.Fatalf("the client's endpoint is %s, want draining", got)
	}
	client = pick(t, h, upstream.PickOptions{Sticky: value})
	if client.Endpoint() != home {
		t.Error("the client was sent away from an endpoint that drains")
	}
	client.Done(upstream.OK)
	for range 6 {
		stranger := pick(t, h, upstream.PickOptions{})
		if stranger.Endpoint() == home {
			t.Error("a new client was sent to an endpoint that drains")
		}
		stranger.Done(upstream.OK)
	}

	all := stickyCart(0, 0, 0)
	for i := range all.Endpoints {
		all.Endpoints[i].State = route.EndpointDraining
	}
	w.serve(all)
	if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrNoEndpoint) {
		t.Errorf("error %v, want ErrNoEndpoint", err)
	}
	client = pick(t, h, upstream.PickOptions{Sticky: value})
	client.Done(upstream.OK)
}
