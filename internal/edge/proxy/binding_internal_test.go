package proxy

import (
	"testing"
	"unsafe"
)

// What every request reads of a rule is one line of a cache.
func TestBindingLine(t *testing.T) {
	const line = 64
	var b binding
	if end := unsafe.Offsetof(b.unrecorded) + unsafe.Sizeof(b.unrecorded); end > line || unsafe.Sizeof(b) != 2*line {
		t.Errorf("the first part ends at %d, and all of it at %d", end, unsafe.Sizeof(b))
	}
}
