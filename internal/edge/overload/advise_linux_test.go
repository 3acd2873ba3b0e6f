package overload

import (
	"bytes"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory that changes its pages stays what it is, wherever it begins and ends.
func TestGatherPages(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, 4*largePage+largePage/2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	pattern := []byte("slipway")
	want := bytes.Repeat(pattern, len(memory)/len(pattern))
	copy(memory, want)
	gatherPages(extent{uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory))})
	if !bytes.HasPrefix(memory, want) {
		t.Error("memory has changed")
	}
}
