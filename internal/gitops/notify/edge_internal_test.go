package notify

import (
	"fmt"
	"testing"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// TestEdgeIndex: a route is served when each edge has it, however many rules an edge has
// for it, and a rule that only responds by itself serves nothing.
func TestEdgeIndex(t *testing.T) {
	shop := trafficreport.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	route := func(rule int, host string) trafficreport.Route {
		return trafficreport.Route{ID: trafficreport.RouteID{Kind: shop.Kind, Namespace: shop.Namespace, Name: shop.Name, Rule: rule}, Host: host, Path: "/"}
	}
	fallback := route(3, "fallback.example.com")
	fallback.Fallback = true
	first := &trafficreport.Table{Routes: []trafficreport.Route{route(0, "a.example.com"), route(1, "a.example.com"), route(2, "b.example.com"), route(4, ""), fallback}}
	second := &trafficreport.Table{Routes: []trafficreport.Route{route(2, "b.example.com"), route(4, ""), fallback}}
	now := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	second.Certificates = []trafficreport.Certificate{
		{Namespace: "shop", Name: "old", Names: []string{"b.example.com"}, NotAfter: now.Add(-time.Second)},
		{Namespace: "shop", Name: "limit", Names: []string{"b.example.com"}, NotAfter: now.Add(expiryWarning)},
		{Namespace: "shop", Name: "good", Names: []string{"b.example.com"}, NotAfter: now.Add(expiryWarning + time.Second)},
		{Namespace: "shop", Name: "deep", Names: []string{"*.com"}, NotAfter: now},
	}
	facts := indexTables([]*trafficreport.Table{first, second}, now).of(map[trafficreport.Object]bool{shop: true})
	if got := fmt.Sprint(facts.Routes); got != "[*/ b.example.com/]" {
		t.Errorf("the routes are %s", got)
	}
	const want = "[the certificate shop/limit of b.example.com expires at 2026-01-08T10:00:00Z the certificate shop/old of b.example.com has expired at 2026-01-01T09:59:59Z]"
	if got := fmt.Sprint(facts.Problems); got != want {
		t.Errorf("the problems are %s", got)
	}
}
