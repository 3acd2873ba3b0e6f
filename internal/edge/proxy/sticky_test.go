package proxy_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
)

func named(t testing.TB, name string) netip.AddrPort {
	return edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

// twoLanes has a rule with two backends, each of which has two endpoints.
func twoLanes(t testing.TB, sticky *route.StickyCookie) *route.Table {
	table := edgetest.Table([]netip.AddrPort{named(t, "a1"), named(t, "a2")})
	edgetest.AddBackend(table, "other", named(t, "b1"), named(t, "b2"))
	table.Rules[0].Backends = append(table.Rules[0].Backends, route.BackendRef{Backend: edgetest.BackendID("other")})
	table.Rules[0].Sticky = sticky
	return table
}

// A client stays at its backend, and at its endpoint where the backend wants it.
func TestStickyRule(t *testing.T) {
	for _, endpoints := range []bool{false, true} {
		t.Run(fmt.Sprintf("endpoints %v", endpoints), func(t *testing.T) {
			table := twoLanes(t, &route.StickyCookie{Name: "lane", HTTPOnly: true})
			if endpoints {
				table.Backends[0].Sticky = &route.StickyCookie{Name: "spot"}
				table.Backends[1].Sticky = &route.StickyCookie{Name: "spot"}
			}
			e := start(t, table)
			w := edgetest.Dial(t, e.Address)
			reached := map[string]bool{}
			for range 20 {
				response, first := w.Get("/")
				cookies := response.Cookies()
				if len(cookies) != 1 || cookies[0].Name != "lane" || !cookies[0].HttpOnly {
					t.Fatalf("got %v", response.Header["Set-Cookie"])
				}
				reached[first[:1]] = true
				spots := map[string]bool{}
				// The endpoint is drawn, so the second one may let itself be waited for.
				for tries := 0; tries < 10 || !endpoints && len(spots) < 2 && tries < 200; tries++ {
					response, got := w.Get("/", "Cookie: x=y; lane="+cookies[0].Value)
					if got[:1] != first[:1] || endpoints && (got != first || len(response.Cookies()) != 0) {
						t.Fatalf("went from %s to %s, with %v", first, got, response.Cookies())
					}
					spots[got] = true
				}
				if !endpoints && len(spots) != 2 {
					t.Errorf("a client without a wish reaches only %v", spots)
				}
			}
			if len(reached) != 2 {
				t.Errorf("new clients reach only %v", reached)
			}
			if response, _ := w.Get("/", "Cookie: lane=made-up.value"); len(response.Cookies()) != 1 {
				t.Error("a cookie that means nothing is not replaced")
			}
		})
	}
}

// A client whose backend is gone gets another, and its cookie.
func TestStickyRuleMoves(t *testing.T) {
	table := twoLanes(t, &route.StickyCookie{})
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	response, first := w.Get("/")
	cookie := response.Cookies()[0]
	if !strings.HasPrefix(cookie.Name, "slipway_") {
		t.Errorf("the cookie is called %s", cookie.Name)
	}
	line := "Cookie: " + cookie.Name + "=" + cookie.Value
	gone := *table
	gone.Backends = nil
	for _, b := range table.Backends {
		changed := *b
		if (b.ID.Name == "app") == (first[:1] == "a") {
			changed.Endpoints = nil
		}
		gone.Backends = append(gone.Backends, &changed)
	}
	e.Apply(t, &gone)
	for range 5 {
		response, got := w.Get("/", line)
		if response.StatusCode != 200 || got[:1] == first[:1] || len(response.Cookies()) != 1 {
			t.Fatalf("got %d %s and %v", response.StatusCode, got, response.Cookies())
		}
	}
	e.Apply(t, table)
	if response, got := w.Get("/", line); got[:1] != first[:1] || len(response.Cookies()) != 0 {
		t.Errorf("the first cookie leads to %s now", got)
	}
}

// A backend whose weight became 0 keeps the clients that it has, and gets no others, also
// where a share of the rule changes headers.
func TestStickyRuleDrains(t *testing.T) {
	table := twoLanes(t, &route.StickyCookie{Name: "lane"})
	refs := table.Rules[0].Backends
	refs[0].Weight, refs[1].Weight = 1, 1
	for i, name := range []string{"a", "b"} {
		refs[i].ResponseHeaders = &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "X-Lane", Value: name}}}
	}
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	clients := map[string]string{}
	for range 4 {
		response, got := w.Get("/")
		clients[got[:1]] = "Cookie: lane=" + response.Cookies()[0].Value
	}
	if len(clients) != 2 {
		t.Fatalf("new clients reach only %v", clients)
	}
	drained, rule := *table, *table.Rules[0]
	rule.Backends = slices.Clone(refs)
	rule.Backends[0].Weight = 0
	drained.Rules = []*route.Rule{&rule}
	e.Apply(t, &drained)
	for range 4 {
		if response, got := w.Get("/"); got[:1] != "b" || response.Header.Get("X-Lane") != "b" {
			t.Errorf("a new client reaches %s, with the header of %s", got, response.Header.Get("X-Lane"))
		}
		for lane, cookie := range clients {
			if response, got := w.Get("/", cookie); got[:1] != lane || response.Header.Get("X-Lane") != lane || len(response.Cookies()) != 0 {
				t.Errorf("the client of %s reaches %s, with the header of %s and %v", lane, got, response.Header.Get("X-Lane"), response.Cookies())
			}
		}
	}
}

// A rule with one backend has its cookie too: clients stay when another backend joins, or
// when the backend keeps them at its endpoints.
func TestStickyRuleAlone(t *testing.T) {
	table := twoLanes(t, &route.StickyCookie{Name: "lane", Path: "/shop"})
	table.Rules[0].Backends = table.Rules[0].Backends[:1]
	table.Backends[0].Sticky = &route.StickyCookie{Name: "spot"}
	w := edgetest.Dial(t, start(t, table).Address)
	response, first := w.Get("/")
	cookies := response.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "lane" || cookies[0].Path != "/shop" {
		t.Fatalf("got %v", response.Header["Set-Cookie"])
	}
	for range 10 {
		if response, got := w.Get("/", "Cookie: lane="+cookies[0].Value); got != first || len(response.Cookies()) != 0 {
			t.Errorf("went from %s to %s, with %v", first, got, response.Cookies())
		}
	}
}
