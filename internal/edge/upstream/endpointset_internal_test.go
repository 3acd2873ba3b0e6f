package upstream

import (
	"testing"
	"unsafe"
)

// What requests need of a backend without a choice is one line of a cache.
func TestRosterLine(t *testing.T) {
	const line = 64
	if size := unsafe.Sizeof(endpointSet{}); size != line {
		t.Errorf("a roster takes %d bytes", size)
	}
}
