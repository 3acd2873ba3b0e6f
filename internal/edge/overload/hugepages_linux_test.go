package overload

import (
	"bytes"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/must"
)

// TestCollapse: memory keeps its content, wherever it begins and ends.
func TestCollapse(t *testing.T) {
	memory := must.Get(unix.Mmap(-1, 0, 4*largePage+largePage/2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer func() { _ = unix.Munmap(memory) }()
	pattern := []byte("slipway")
	want := bytes.Repeat(pattern, len(memory)/len(pattern))
	copy(memory, want)
	collapse(uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)))
	if !bytes.HasPrefix(memory, want) {
		t.Error("memory has changed")
	}
}

// TestCollapseLeavesHoles: memory that is mostly free takes no more afterwards, and memory
// that is in use is not touched.
func TestCollapseLeavesHoles(t *testing.T) {
	memory := must.Get(unix.Mmap(-1, 0, 8*largePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer func() { _ = unix.Munmap(memory) }()
	begin := uintptr(unsafe.Pointer(&memory[0]))
	aligned := (begin + largePage - 1) / largePage * largePage
	half := memory[aligned-begin:][:largePage/2]
	for i := range half {
		half[i] = 1
	}
	before := resident(aligned)
	if before < pagesPerLarge/2 {
		t.Skip("the pages of this machine are not those of most")
	}
	collapse(begin, uintptr(len(memory)))
	if after := resident(aligned); after > before {
		t.Errorf("%d pages are in use, and were %d", after, before)
	}
	if bytes.Count(half, []byte{1}) != len(half) {
		t.Error("memory has changed")
	}
}

const heapSample = `06300000-06680000 rw-p 05ee6000 fe:00 9978511                            /bin/a program
Anonymous:             0 kB
VmFlags: rd wr mr mw me ac
ae20b400000-ae20fc00000 rw-p 00000000 00:00 0
Anonymous:         62052 kB
VmFlags: rd wr mr mw me ac
`

// TestMappingAt: only anonymous private memory is the heap.
func TestMappingAt(t *testing.T) {
	for address, found := range map[uintptr]bool{
		0xae20b400000: true, 0xae20fbfffff: true, 0xae20fc00000: false, 0x6300000: false, 0: false,
	} {
		begin, length, ok := mappingAt([]byte(heapSample), address)
		if ok != found || found && (begin != 0xae20b400000 || length != 0x4800000) {
			t.Errorf("%x: %x, %x, %v", address, begin, length, ok)
		}
	}
}

func FuzzMappingAt(f *testing.F) {
	f.Add([]byte(heapSample))
	f.Fuzz(func(t *testing.T, text []byte) {
		if begin, length, ok := mappingAt(text, 1<<40); ok && (begin > 1<<40 || begin+length <= 1<<40) {
			t.Errorf("%x, %x", begin, length)
		}
	})
}
