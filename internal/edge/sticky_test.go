package edge_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// named responds with a name, so that a test sees which backend served.
func named(t *testing.T, name string) netip.AddrPort {
	return edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

// A client with the cookie stays where it was, also while that endpoint is
// draining, which takes no other client.
func TestSticky(t *testing.T) {
	table := tableFor(named(t, "a"), named(t, "b"), named(t, "c"))
	table.Backends[0].Sticky = &route.StickyCookie{Name: "lane", HTTPOnly: true, SameSite: route.SameSiteLax}
	s := start(t, table)
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	response, first := w.Response("GET")
	cookies := response.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "lane" || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("got cookies %v", response.Header["Set-Cookie"])
	}
	again := fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nCookie: other=1; lane=%s\r\n\r\n", cookies[0].Value)
	stays := func() {
		t.Helper()
		for range 20 {
			w.Send(again)
			if response, got := w.Response("GET"); got != first || len(response.Cookies()) != 0 {
				t.Fatalf("got %q and cookies %v, want %q and none", got, response.Cookies(), first)
			}
		}
	}
	stays()

	moved := tableFor()
	changed := *table.Backends[0]
	changed.Endpoints = append([]route.Endpoint(nil), changed.Endpoints...)
	changed.Endpoints[strings.Index("abc", first)].State = route.EndpointDraining
	moved.Backends[0] = &changed
	must.Do(t, s.Apply(moved))
	stays()
	for range 20 {
		w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, got := w.Response("GET"); got == first {
			t.Fatal("a new client was sent to an endpoint that is draining")
		}
	}
}

// Requests with the same key reach the same endpoint; one key is not all keys.
func TestHash(t *testing.T) {
	table := tableFor(named(t, "a"), named(t, "b"), named(t, "c"))
	table.Backends[0].Balancing = route.Balancing{Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyHeader, Name: "X-User"}}
	s := start(t, table)
	w := edgetest.Dial(t, s.address)
	seen := map[string]string{}
	used := map[string]bool{}
	for i := range 90 {
		user := fmt.Sprint(i % 30)
		w.Send("GET / HTTP/1.1\r\nHost: x\r\nX-User: " + user + "\r\n\r\n")
		_, got := w.Response("GET")
		if before, ok := seen[user]; ok && before != got {
			t.Fatalf("user %s went from %s to %s", user, before, got)
		}
		seen[user], used[got] = got, true
	}
	if len(used) != 3 {
		t.Errorf("30 users reach only %v", used)
	}
}

// Filters run for the edge's local responses too, and a filter's own response wins.
func TestFiltersOnOwnAnswers(t *testing.T) {
	table := &route.Table{Rules: []*route.Rule{{
		ID: route.ID{Name: "limited"}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
		Response: &route.Response{Status: 404, Reason: route.ReasonConfigured},
		Policies: []route.Policy{
			{ResponseHeaders: &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "X-Seen", Value: "yes"}}}},
			{IPFilter: &route.IPFilter{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		},
	}}}
	s := start(t, table)
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 403 || response.Header.Get("X-Seen") != "yes" {
		t.Errorf("got %d and %v", response.StatusCode, response.Header)
	}
}
