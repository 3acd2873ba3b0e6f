package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// counting is an edge that has counted something.
type counting struct {
	*parts
	routed []trafficreport.RouteCount
}

func (c *counting) Counts() ([]trafficreport.RouteCount, trafficreport.Count) {
	return c.routed, trafficreport.Count{Statuses: [6]uint64{4: 7}}
}

func (c *counting) Releases() []trafficreport.ReleaseTraffic {
	return []trafficreport.ReleaseTraffic{
		{Namespace: "shop", Name: "ended", Ended: true, Revisions: []trafficreport.RevisionTraffic{{Name: "stable", Ended: true}}},
		{Namespace: "shop", Name: "web", Revisions: []trafficreport.RevisionTraffic{{Name: "stable", Requests: 9}, {Name: "canary", Hash: "before", Ended: true}, {Name: "canary", Requests: 1}}},
	}
}

func TestTraffic(t *testing.T) {
	s := serve(t)
	cart := trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "cart"}
	edge := &counting{parts: newParts(t, shopTable(t)), routed: []trafficreport.RouteCount{
		{ID: cart, Count: trafficreport.Count{Statuses: [6]uint64{2: 3}, Spread: []uint32{0, 3}}},
		{ID: trafficreport.RouteID{Name: "left the table"}, Count: trafficreport.Count{Statuses: [6]uint64{5: 2}}},
	}}
	s.Attach(edge)
	s.SetRefusals([]refusal.Refusal{{
		Object: refusal.Object{Kind: "Ingress", Namespace: "shop", Name: "cart"}, Field: "spec", Reason: refusal.Invalid, Message: "write it",
	}})
	report := decode[trafficreport.Report](t, s, "traffic")
	if !report.Ready || len(report.Counts) != 1 || report.Counts[0].ID != cart || report.Rest.Requests() != 2 || report.Unrouted.Requests() != 7 {
		t.Errorf("the counts are %+v", report)
	}
	if found := report.Releases; len(found) != 1 || found[0].Name != "web" || len(found[0].Revisions) != 2 || found[0].Revisions[1].Requests != 1 {
		t.Errorf("the releases that run are %+v", found)
	}
	table := report.Table
	if len(table.Routes) != 4 || len(table.Refusals) != 1 || len(table.Certificates) != 1 || len(table.EntryPoints) != 2 {
		t.Fatalf("the table is %+v", table)
	}
	guarded := table.Routes[slices.IndexFunc(table.Routes, func(r trafficreport.Route) bool { return r.ID.Name == "guarded" })]
	if !slices.Contains(guarded.Conditions, "header X-Api-Key = [redacted]") || len(guarded.Backends) != 1 || guarded.Backends[0].Weight != 3 {
		t.Errorf("the guarded route is %+v", guarded)
	}
	if got := table.Backends; len(got) != 1 || got[0].Ready != 1 || got[0].Total != 1 {
		t.Errorf("the backends are %+v", got)
	}
	if issuer := table.Certificates[0].Issuer; issuer != "shop.example.com (self-signed)" {
		t.Errorf("the issuer is %q", issuer)
	}
	// A client that has the table does not get it again, until it changes.
	again := decode[trafficreport.Report](t, s, "traffic?have="+report.TableVersion)
	if again.Table != nil || again.TableVersion != report.TableVersion {
		t.Errorf("again: %+v", again)
	}
	s.SetRefusals(nil)
	if other := decode[trafficreport.Report](t, s, "traffic?have="+report.TableVersion); other.Table == nil || len(other.Table.Refusals) != 0 {
		t.Errorf("without refusals: %+v", other)
	}
	if _, body := s.get(t, "traffic"); strings.Contains(body, canary) || strings.Contains(body, "PRIVATE KEY") {
		t.Errorf("the report shows a secret:\n%s", body)
	}
}

// TestTrafficBound: of too many routes the busiest are listed, and the others counted.
func TestTrafficBound(t *testing.T) {
	table := &route.Table{}
	for i := range trafficreport.MaxRoutes + 10 {
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "many", Rule: i}, Host: "shop" + strconv.Itoa(i) + ".example.com",
			Response: &route.Response{Status: 200},
		})
	}
	busy := trafficreport.RouteID(table.Rules[len(table.Rules)-1].ID)
	s := serve(t)
	s.Attach(&counting{parts: newParts(t, table), routed: []trafficreport.RouteCount{{ID: busy, Count: trafficreport.Count{Statuses: [6]uint64{2: 1}}}}})
	report := decode[trafficreport.Report](t, s, "traffic")
	if len(report.Table.Routes) != trafficreport.MaxRoutes || report.Table.MoreRoutes != 10 || len(report.Counts) != 1 {
		t.Errorf("%d routes, %d more, %d counts", len(report.Table.Routes), report.Table.MoreRoutes, len(report.Counts))
	}
}

// TestRemote: the agent gets no more than it needs, and can read it.
func TestRemote(t *testing.T) {
	handler := admin.New(admin.Build{Version: "v1"})
	handler.Attach(newParts(t, shopTable(t)))
	for path, want := range map[string]int{
		"/api/v1/traffic": 200, "/api/v1/explain?url=http://shop.example.com/": 200, "/api/v1/table": 404, "/debug/pprof/": 404, "/api/v1/backends": 404,
	} {
		answer := httptest.NewRecorder()
		handler.Remote().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", path, answer.Code, want)
		}
	}
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	// The agent reads a part of the edge's response.
	_, body := s.get(t, "explain?text=true&url=http://shop.example.com/cart")
	var e trafficreport.Explanation
	must.Do(t, json.Unmarshal([]byte(body), &e))
	if e.Rule == nil || e.Rule.Name != "cart" || len(e.Steps) != 4 || e.Request.Host != "shop.example.com" || !strings.Contains(e.Text, "serves it") {
		t.Errorf("the explanation is %+v", e)
	}
	if len(e.Backends) != 1 || e.Backends[0].ID.Name != "cart" || len(e.Backends[0].Endpoints) != 1 || e.Backends[0].Endpoints[0].Health != "ready" {
		t.Errorf("the backends are %+v", e.Backends)
	}
}
