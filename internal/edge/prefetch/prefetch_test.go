package prefetch_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/prefetch"
)

// TestForWriting: nothing changes, and an address that is none does no harm.
func TestForWriting(t *testing.T) {
	values := [3]uint64{1, 2, 3}
	prefetch.ForWriting(&values[2])
	prefetch.ForWriting[uint64](nil)
	if values != [3]uint64{1, 2, 3} {
		t.Errorf("the values are %v", values)
	}
}
