package program

import (
	"testing"
	"unsafe"
)

// What every search reads of a rule is one line of a cache, and a host is two.
func TestLines(t *testing.T) {
	const line = 64
	var r compiledRule
	if end := unsafe.Offsetof(r.conditional) + unsafe.Sizeof(r.conditional); end > line || unsafe.Sizeof(r)%line != 0 {
		t.Errorf("the first part of a rule ends at %d, and all of it at %d", end, unsafe.Sizeof(r))
	}
	if size := unsafe.Sizeof(bucket{}); size != 2*line {
		t.Errorf("a host takes %d bytes", size)
	}
}
