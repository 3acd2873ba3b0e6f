package program

import (
	"testing"
	"unsafe"
)

// What every lookup reads of a host and of a rule is one line of a cache each.
func TestLines(t *testing.T) {
	const line = 64
	var r compiledRule
	if end := unsafe.Offsetof(r.conditional) + unsafe.Sizeof(r.conditional); end > line || unsafe.Sizeof(r)%line != 0 {
		t.Errorf("the first part of a rule ends at %d, and all of it at %d", end, unsafe.Sizeof(r))
	}
	var b bucket
	if end := unsafe.Offsetof(b.text) + unsafe.Sizeof(b.text); end > line || unsafe.Sizeof(b) != 2*line {
		t.Errorf("the first part of a host ends at %d, and all of it at %d", end, unsafe.Sizeof(b))
	}
}
