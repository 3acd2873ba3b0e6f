package overload

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a huge page on most CPUs.
const largePage = 2 << 20

// collapseHeap collapses the heap into huge pages: requests for thousands of
// routes read it at random, and with small pages the TLB misses would take as
// long as the reads (decision 0025).
func collapseHeap() {
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	if begin, length, ok := mappingAt(mappings, reflect.ValueOf(new([64]byte)).Pointer()); ok {
		collapse(begin, length)
	}
}

// mappingAt finds the anonymous mapping around an address in /proc/self/smaps.
func mappingAt(mappings []byte, address uintptr) (begin, length uintptr, ok bool) {
	for line := range bytes.Lines(mappings) {
		fields := strings.Fields(string(line))
		// Anonymous memory has no file name.
		if len(fields) != 5 || fields[1] != "rw-p" {
			continue
		}
		var end uintptr
		if n, err := fmt.Sscanf(fields[0], "%x-%x", &begin, &end); n != 2 || err != nil || end <= begin {
			continue
		}
		if begin <= address && address < end {
			return begin, end - begin, true
		}
	}
	return 0, 0, false
}

// collapse collapses memory into huge pages (MADV_COLLAPSE), as far as the kernel
// has some. It needs Linux 6.1; without it nothing happens. Each page is a call
// of its own: one call for all of them would end with the first that fails.
// Memory that is mostly free stays as it is: a huge page has no holes, so that it
// would take back what was just returned to the system.
func collapse(begin, length uintptr) {
	first := (begin + largePage - 1) / largePage * largePage
	for at := first; at+largePage <= begin+length; at += largePage {
		if resident(at) >= densePages {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, at, largePage, unix.MADV_COLLAPSE)
		}
	}
}

// densePages is the number of small pages in use from which on a huge page takes
// their place.
const densePages = pagesPerLarge * 15 / 16

// pagesPerLarge is the number of small pages in a huge one.
const pagesPerLarge = largePage / (4 << 10)

// resident returns how many small pages of a huge page have memory; none if the
// kernel does not report it. With larger pages than most CPUs have it is less, so that
// nothing is collapsed.
func resident(at uintptr) int {
	var pages [pagesPerLarge]byte
	if _, _, failed := unix.Syscall(unix.SYS_MINCORE, at, largePage, uintptr(unsafe.Pointer(&pages[0]))); failed != 0 {
		return 0
	}
	count := 0
	for _, page := range pages {
		count += int(page & 1)
	}
	return count
}
