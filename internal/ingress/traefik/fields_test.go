package traefik_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
)

// TestFields: what the page has of each field is what becomes of it: a refused one is refused
// by name, one without effect is not, and none is unknown.
func TestFields(t *testing.T) {
	fields := traefik.Fields()
	if len(fields) < 100 {
		t.Fatalf("only %d fields are known", len(fields))
	}
	for _, field := range fields {
		if field.Middleware == "chain" {
			continue // its fields are those of references
		}
		path := "spec." + field.Middleware + "." + field.Path
		about := func(value any) []refusal.Refusal {
			var spec any = value
			for _, name := range slices.Backward(append([]string{field.Middleware}, strings.Split(field.Path, ".")...)) {
				spec = map[string]any{name: spec}
			}
			_, faults := readMiddleware(snapshot.New(), spec.(map[string]any))
			return slices.DeleteFunc(faults, func(fault refusal.Refusal) bool { return fault.Field != path })
		}
		for _, value := range []any{"text", true, int64(7), []any{"text"}} {
			faults := about(value)
			unsupported := slices.ContainsFunc(faults, func(fault refusal.Refusal) bool { return fault.Reason == refusal.Unsupported })
			switch {
			case field.Support == traefik.Refused && (!unsupported || field.Advice == ""):
				t.Errorf("%s is not refused with %v: %v", path, value, faults)
			case field.Support == traefik.NoEffect && len(faults) > 0:
				t.Errorf("%s has faults with %v: %v", path, value, faults)
			case slices.ContainsFunc(faults, func(fault refusal.Refusal) bool { return strings.Contains(fault.Message, "is unknown") }):
				t.Errorf("%s is unknown", path)
			}
		}
	}
}
