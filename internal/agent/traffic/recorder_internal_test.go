package traffic

import (
	"testing"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

// TestRecorded: each route with requests is counted by its object, host and Application,
// and nothing is left out.
func TestRecorded(t *testing.T) {
	gone := trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "gone"}
	made := report(0, map[trafficreport.RouteID]uint64{cart: 3, gone: 2, all: 0}, cart, all)
	made.Unrouted, made.Rest = trafficreport.Count{Statuses: [6]uint64{4: 5}}, trafficreport.Count{Statuses: [6]uint64{2: 7}}
	owner := &appFacts{place: tracking.App{Namespace: "argocd", Name: "shop"}}
	request := recorded(EdgeReport{"one", made}, &appIndex{byKey: map[objectKey]*appFacts{keyOf("Service", "shop", "cart"): owner}})
	if request.GetEdge() != "one" || !request.GetAt().AsTime().Equal(made.At) || !request.GetStartedAt().AsTime().Equal(made.Started) {
		t.Errorf("got %v", request)
	}
	type row struct {
		name, host, app, project string
		others                   bool
		requests                 uint64
	}
	got, keys := map[row]bool{}, map[string]bool{}
	for _, route := range request.GetRoutes() {
		s, sum := route.GetSeries(), uint64(0)
		for _, n := range route.GetStatuses() {
			sum += n
		}
		got[row{s.GetName(), s.GetHost(), s.GetApplicationNamespace() + "/" + s.GetApplication(), s.GetProject(), s.GetOthers(), sum}] = true
		keys[route.GetKey()] = true
	}
	for _, want := range []row{
		{"cart", "shop.example.com", "argocd/shop", "default", false, 3}, {"gone", "", "/", "", false, 2}, {"", "", "/", "", false, 5}, {"", "", "/", "", true, 7},
	} {
		if !got[want] {
			t.Errorf("%v is missing in %v", want, got)
		}
	}
	if len(got) != 4 || len(keys) != 4 {
		t.Errorf("%d rows with %d keys: %v", len(got), len(keys), got)
	}
}
