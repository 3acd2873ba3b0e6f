package prefetch_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/prefetch"
)

// TestPrefetch: nothing changes, and an address that is none does no harm.
func TestPrefetch(t *testing.T) {
	values := [3]uint64{1, 2, 3}
	prefetch.ForReading(&values[0])
	prefetch.ForWriting(&values[2])
	prefetch.ForReading[uint64](nil)
	prefetch.ForWriting[uint64](nil)
	if values != [3]uint64{1, 2, 3} {
		t.Errorf("the values are %v", values)
	}
}
