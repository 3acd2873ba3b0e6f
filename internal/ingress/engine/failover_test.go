package engine_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestFailover: the second Service of a failover is the fallback of the first, or takes its
// place while that is missing.
func TestFailover(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	w.put(w.object(snapshot.TraefikService, "shop", "spare", 0, "failover: {healthCheck: {}, service: {name: web, port: 80}, fallback: {name: api, port: 80}}"))
	w.put(w.object(snapshot.TraefikService, "shop", "lost", 0, "failover: {service: {name: gone, port: 80}, fallback: {name: api, port: 80}}"))
	w.put(w.object(snapshot.TraefikService, "shop", "coded", 0, "failover: {service: {name: web, port: 80}, fallback: {name: api, port: 80}, errors: {status: [\"500\"]}}"))
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, strings.ReplaceAll(`routes:
- {match: "Host('a.example')", services: [{name: spare, kind: TraefikService}]}
- {match: "Host('b.example')", services: [{name: lost, kind: TraefikService}]}
- {match: "Host('c.example')", services: [{name: coded, kind: TraefikService}]}
- {match: "Host('d.example')", services: [{name: spare, kind: TraefikService}, {name: other, port: 80}]}
`, "'", "`")))
	w.wantTable("shop",
		`IngressRoute shop/a[0][0] "a.example" 17 shop/web*1 shop/api*1`,
		`IngressRoute shop/a[1][0] "b.example" 17 shop/api*0`,
		`IngressRoute shop/a[2][0] "c.example" 17 503 Refused`,
		`IngressRoute shop/a[3][0] "d.example" 17 503 Refused`,
	)
	for _, rule := range w.book.Table().Rules {
		if len(rule.Backends) == 2 && (rule.Backends[0].Fallback || !rule.Backends[1].Fallback) {
			t.Errorf("the backends are %+v", rule.Backends)
		}
	}
	refused := w.refused(snapshot.IngressRoute, "shop", "a")
	for _, want := range []string{"there is no Service shop/gone", "failover.errors", "use it alone"} {
		if !strings.Contains(refused, want) {
			t.Errorf("it is refused with %q, without %q", refused, want)
		}
	}
}
