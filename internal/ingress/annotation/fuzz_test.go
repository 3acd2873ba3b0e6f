package annotation

import (
	"reflect"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// seeds are a key and a value each.
func seeds(f *testing.F, of *object) {
	for _, k := range of.keys {
		f.Add(k.name, k.example, ownPrefix+"priority", "1")
		f.Add(k.name, "{a: [1, {b: c}]}", traefikPrefix+"router.priority", "2")
	}
	f.Add(ownPrefix+"cors", "*", ownPrefix+"cors", "a: &a [*a]")
	f.Add("traefik.ingress.kubernetes.io/", "", "slipway.dev/", "\xff")
}

// FuzzParseIngress: it never panics, returns the same again, and what it takes
// without a fault holds in a rule.
func FuzzParseIngress(f *testing.F) {
	seeds(f, declared().ingress)
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		given := map[string]string{key1: value1, key2: value2}
		got, faults := ParseIngress(given)
		again, same := ParseIngress(given)
		if !reflect.DeepEqual(got, again) || !reflect.DeepEqual(faults, same) {
			t.Fatalf("%+v %v, and then %+v %v", got, faults, again, same)
		}
		if got.Closed && len(faults) == 0 {
			t.Fatal("closed without a word")
		}
		checkFaults(t, faults)
		rule := route.Rule{
			ID: route.ID{Name: "x"}, EntryPoints: got.EntryPoints, Priority: got.Priority, Timeouts: got.Timeouts,
			Response: &route.Response{Status: 503},
		}
		for _, domain := range got.Domains {
			rule.Host = domain.Main
		}
		if problems := rule.Validate(); len(problems) > 0 {
			t.Fatal(problems)
		}
	})
}

// FuzzParseService is the same for Services: what is taken holds in a backend.
func FuzzParseService(f *testing.F) {
	seeds(f, declared().service)
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		given := map[string]string{key1: value1, key2: value2}
		got, faults := ParseService(given)
		again, same := ParseService(given)
		if !reflect.DeepEqual(got, again) || !reflect.DeepEqual(faults, same) {
			t.Fatalf("%+v %v, and then %+v %v", got, faults, again, same)
		}
		if got.Closed && len(faults) == 0 {
			t.Fatal("closed without a word")
		}
		checkFaults(t, faults)
		backend := route.Backend{
			ID: route.BackendID{Name: "x"}, Transport: route.Transport{Protocol: route.ProtocolALPN},
			Sticky: got.Sticky, Balancing: got.Balancing, HealthCheck: got.HealthCheck,
			MaxInFlight: got.MaxInFlight, MaxInFlightPerEndpoint: got.MaxInFlightPerEndpoint,
		}
		if problems := backend.Validate(); len(problems) > 0 {
			t.Fatal(problems)
		}
	})
}

// checkFaults: each fault fits into an Event.
func checkFaults(t *testing.T, faults []refusal.Refusal) {
	for _, fault := range faults {
		if fault.Field == "" || fault.Message == "" || fault.Reason == "" || len(fault.Field) > 400 || len(fault.Message) > 700 {
			t.Fatalf("%+v", fault)
		}
	}
}
