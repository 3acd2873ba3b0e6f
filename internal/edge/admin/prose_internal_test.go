package admin

import (
	"fmt"
	"testing"
)

// TestShares: a share is printed only where there are several backends.
func TestShares(t *testing.T) {
	for want, weights := range map[string][]uint32{
		"[]": {0},
		"[, one of 2 equal shares , one of 2 equal shares]": {0, 0},
		"[, weight 3 of 4 , weight 1 of 4]":                 {3, 1},
		"[, weight 0 of 1 , weight 1 of 1]":                 {0, 1},
	} {
		e := &Explanation{}
		for _, weight := range weights {
			e.Backends = append(e.Backends, ExplainedBackend{BackendPart: BackendPart{Weight: weight}})
		}
		var got []string
		for _, backend := range e.Backends {
			got = append(got, e.share(backend.BackendPart))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("weights %v: %v, want %s", weights, got, want)
		}
	}
}
