package proxy

import (
	"testing"

	"slipway.dev/slipway/internal/route"
)

// The share of backends that do not exist gets the error, and the others theirs.
func TestUnresolvedShare(t *testing.T) {
	a := route.BackendRef{Backend: route.BackendID{Name: "a", Port: 80}}
	with := func(ref route.BackendRef, weight uint32) route.BackendRef {
		ref.Weight = weight
		return ref
	}
	missing := route.BackendRef{Status: 500}
	for _, test := range []struct {
		name           string
		refs           []route.BackendRef
		resolved, want int // of 10 requests
	}{
		{"all resolve", []route.BackendRef{a}, 1, 0},
		{"half", []route.BackendRef{with(a, 1), with(missing, 1)}, 1, 5},
		{"a fifth", []route.BackendRef{with(missing, 1), with(a, 4)}, 1, 2},
		{"weight 0 gets none", []route.BackendRef{with(missing, 0), with(a, 4)}, 1, 0},
		{"the others get none", []route.BackendRef{with(missing, 3), with(a, 0)}, 1, 10},
		{"none resolves", []route.BackendRef{with(missing, 3)}, 0, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolved, share := splitUnresolved(test.refs)
			b := &binding{unresolved: share}
			got := 0
			for range 10 {
				if local := b.localResponse(); local != nil {
					if local.Status != 500 {
						t.Fatalf("status %d", local.Status)
					}
					got++
				}
			}
			if got != test.want || len(resolved) != test.resolved {
				t.Errorf("%d of 10 requests fail, want %d; %d backends, want %d", got, test.want, len(resolved), test.resolved)
			}
		})
	}
}
