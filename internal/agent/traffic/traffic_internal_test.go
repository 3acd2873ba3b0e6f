package traffic

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

var (
	cart = trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "cart"}
	all  = trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "all"}
)

func report(at time.Duration, counts map[trafficreport.RouteID]uint64, routes ...trafficreport.RouteID) *trafficreport.Report {
	start := time.Unix(1000, 0)
	made := &trafficreport.Report{Started: start, At: start.Add(at), Ready: true, TableVersion: "v", Table: &trafficreport.Table{}}
	for _, id := range routes {
		made.Table.Routes = append(made.Table.Routes, trafficreport.Route{
			ID: id, Host: "shop.example.com", Backends: []trafficreport.Target{{ID: trafficreport.BackendID{Namespace: "shop", Name: id.Name, Port: 80}}},
		})
		made.TableVersion += id.Name
	}
	for id, count := range counts {
		made.Counts = append(made.Counts, trafficreport.RouteCount{ID: id, Count: trafficreport.Count{
			Statuses: [6]uint64{2: count}, Spread: []uint32{10: uint32(count)},
		}})
	}
	return made
}

// TestMeasure: rates are of the last step, totals since the start, also when an edge
// was silent or restarted meanwhile.
func TestMeasure(t *testing.T) {
	at := edgeAddress{name: "a"}
	first := newEdgeView(at, report(10*time.Second, map[trafficreport.RouteID]uint64{cart: 100}, cart), nil)
	if first.seconds != 0 || first.totals.all.Requests() != 100 {
		t.Errorf("the first report: %+v", first)
	}
	second := newEdgeView(at, report(12*time.Second, map[trafficreport.RouteID]uint64{cart: 130}, cart), first)
	if _, told := sums([]*edgeView{second}); told.GetRequests() != 0 {
		t.Errorf("unrouted: %v", told)
	}
	if told, _ := sums([]*edgeView{second}); told.GetRequestsPerSecond() != 15 || told.GetRequests() != 130 {
		t.Errorf("the second report: %v", told)
	}
	silent := failedPoll(at, second, errors.New("no response"))
	if told, _ := sums([]*edgeView{silent}); told.GetRequestsPerSecond() != 0 || told.GetRequests() != 130 || silent.table == nil {
		t.Errorf("an edge that is silent: %v", told)
	}
	third := newEdgeView(at, report(22*time.Second, map[trafficreport.RouteID]uint64{cart: 150}, cart), silent)
	if told, _ := sums([]*edgeView{third}); told.GetRequestsPerSecond() != 2 {
		t.Errorf("after the silence: %v", told)
	}
	anew := report(5*time.Second, map[trafficreport.RouteID]uint64{cart: 5}, cart)
	anew.Started, anew.At = third.at, third.at.Add(5*time.Second)
	if told, _ := sums([]*edgeView{newEdgeView(at, anew, third)}); told.GetRequestsPerSecond() != 1 || told.GetRequests() != 5 {
		t.Errorf("after a restart: %v", told)
	}
}

// TestJoin: edges are added up, and a route that one does not serve is marked. An Application
// is found by the Ingress, or else by the Service.
func TestJoin(t *testing.T) {
	one := newEdgeView(edgeAddress{name: "one"}, report(time.Second, map[trafficreport.RouteID]uint64{cart: 10}, cart, all), nil)
	two := newEdgeView(edgeAddress{name: "two"}, report(time.Second, map[trafficreport.RouteID]uint64{cart: 5}, cart), nil)
	edges := []*edgeView{one, two}
	app := &appFacts{place: tracking.App{Namespace: "argocd", Name: "shop"}, revision: "abc"}
	index := &appIndex{byKey: map[objectKey]*appFacts{
		keyOf("Ingress", "shop", "cart"): app, keyOf("Service", "shop", "all"): app,
	}}
	j := &joiner{apps: index, commit: func(*appFacts) *source.Commit { return &source.Commit{Author: "Ada", Message: "Sell boats"} }}
	made := j.join(edges)
	if !slices.Equal(made.routes, []trafficreport.RouteID{cart, all}) || len(made.table.GetApplications()) != 1 {
		t.Fatalf("the table is %v", made.table)
	}
	for i, route := range made.table.GetRoutes() {
		if route.GetApplication() != 1 || route.GetApplicationByService() != (i == 1) {
			t.Errorf("route %d has the Application %d, by its Service: %v", i, route.GetApplication(), route.GetApplicationByService())
		}
	}
	if missing := made.table.GetRoutes()[1].GetMissingOn(); !slices.Equal(missing, []string{"two"}) || len(made.table.GetRoutes()[0].GetMissingOn()) != 0 {
		t.Errorf("missing on %v", missing)
	}
	if app := made.table.GetApplications()[0]; app.GetCommitAuthor() != "Ada" {
		t.Errorf("the Application is %v", app)
	}
	told := numbers(edges, made.routes)
	if len(told) != 1 || told[0].GetRoute() != 0 || told[0].GetNumbers().GetRequests() != 15 {
		t.Errorf("the numbers are %v", told)
	}
	if before, after := tableKey(edges, index, 1), tableKey(edges, index, 2); before == after {
		t.Error("a commit that became known does not change the table")
	}
	if got := selectEdges(edges, "two"); len(got) != 1 || got[0] != two || len(edges) != 2 {
		t.Errorf("chosen: %v", got)
	}
}

// TestRevisions: what the revisions of a Release serve is added up over the edges, with rates of the
// last step. A Release of another namespace is another one.
func TestRevisions(t *testing.T) {
	with := func(at time.Duration, canary uint64, namespaces ...string) *trafficreport.Report {
		made := report(at, nil, cart)
		made.Table.Backends = []trafficreport.Backend{{ID: made.Table.Routes[0].Backends[0].ID, Release: "web"}}
		for _, namespace := range namespaces {
			made.Releases = append(made.Releases, trafficreport.ReleaseTraffic{Namespace: namespace, Name: "web", Revisions: []trafficreport.RevisionTraffic{
				{Name: "stable", Hash: "a", Weight: 90, Requests: 9 * canary, Latency: []uint32{10: uint32(9 * canary)}},
				{Name: "canary", Hash: "b", Weight: 10, Requests: canary, Errors: canary / 10, Latency: []uint32{20: uint32(canary)}},
			}})
		}
		return made
	}
	var edges []*edgeView
	for _, name := range []string{"one", "two"} {
		before := newEdgeView(edgeAddress{name: name}, with(10*time.Second, 100, "shop"), nil)
		edges = append(edges, newEdgeView(edgeAddress{name: name}, with(12*time.Second, 140, "shop", "other"), before))
	}
	found := revisionTraffic(edges)
	if len(found) != 4 || found[0].GetNamespace() != "other" || found[2].GetRevision() != "stable" {
		t.Fatalf("the revisions are %v", found)
	}
	canary, numbers := found[3], found[3].GetNumbers()
	if canary.GetNamespace() != "shop" || canary.GetRevision() != "canary" || canary.GetRelease() != "web" || canary.GetWeight() != 10 ||
		numbers.GetRequests() != 280 || numbers.GetErrors() != 28 || numbers.GetRequestsPerSecond() != 40 || numbers.GetErrorsPerSecond() != 4 {
		t.Errorf("the canary is %v", canary)
	}
	if stable := found[2].GetNumbers(); stable.GetP50() >= numbers.GetP50() || stable.GetP50() == 0 {
		t.Errorf("the times are %v and %v", stable, numbers)
	}
	silent := failedPoll(edgeAddress{name: "one"}, edges[0], errors.New("no response"))
	if found := revisionTraffic([]*edgeView{silent}); len(found) != 4 || found[3].GetNumbers().GetRequestsPerSecond() != 0 || found[3].GetNumbers().GetRequests() != 140 {
		t.Errorf("of an edge that is silent: %v", found)
	}
	made := (&joiner{commit: func(*appFacts) *source.Commit { return nil }}).join(edges)
	if release := made.table.GetRoutes()[0].GetBackends()[0].GetRelease(); release != "web" {
		t.Errorf("the backend has the Release %q", release)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		name, host string
		want       bool
	}{
		{"shop.example.com", "SHOP.example.com", true}, {"*.example.com", "shop.example.com", true},
		{"*.example.com", "example.com", false}, {"*.example.com", "a.shop.example.com", false}, {"shop.example.com", "", false},
	} {
		if got := covers(c.name, c.host); got != c.want {
			t.Errorf("%s covers %q: %v", c.name, c.host, got)
		}
	}
}

// FuzzReport: the agent adds up any report of an edge without a panic.
func FuzzReport(f *testing.F) {
	text := must.Get(json.Marshal(report(time.Second, map[trafficreport.RouteID]uint64{cart: 3}, cart, all)))(f)
	f.Add(text, text)
	f.Add([]byte(`{"table":null}`), []byte(`{"counts":[{"id":{"name":"x"},"spread":[1,2,3]}],"table":{"routes":[{"backends":[{}]}]}}`))
	f.Add([]byte(`{"table":{},"releases":[{"name":"web","revisions":[{"name":"canary","requests":1,"latency":[1,2]}]}]}`), []byte(`{"table":{},"releases":[{}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var before *edgeView
		for _, text := range [][]byte{a, b} {
			told, err := decodeReport(text)
			if err != nil || told.Table == nil {
				continue
			}
			before = newEdgeView(edgeAddress{name: "edge"}, told, before)
			edges := []*edgeView{before}
			made := (&joiner{commit: func(*appFacts) *source.Commit { return nil }}).join(edges)
			for _, each := range numbers(edges, made.routes) {
				if n := each.GetNumbers(); n.GetP99() < n.GetP50() || n.GetRequestsPerSecond() < 0 {
					t.Errorf("the numbers are %v", n)
				}
			}
			sums(edges)
			states(edges)
			for _, each := range revisionTraffic(edges) {
				if n := each.GetNumbers(); n.GetP99() < n.GetP50() || n.GetRequestsPerSecond() < 0 {
					t.Errorf("the numbers of a revision are %v", n)
				}
			}
		}
	})
}
