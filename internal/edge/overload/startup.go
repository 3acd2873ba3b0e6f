package overload

import (
	"bufio"
	"bytes"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
)

// ReleaseStartupMemory gives back what a start took and serving does not need: memory that is
// free again, and the pages of the program that only the start has run. Of these
// the kernel brings back what is used, from its cache. What is left of the heap
// goes into large pages: requests for thousands of routes read it here and there,
// and finding small pages would take them as long as reading.
func ReleaseStartupMemory() {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return // the system has no such thing, and keeps the pages
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, part := range programParts(mappings, program) {
		dropPages(part)
	}
	if heap, ok := mappingAt(mappings, reflect.ValueOf(new([64]byte)).Pointer()); ok {
		gatherPages(heap)
	}
}

// mappingAt finds the private memory around an address, in the kernel's list of
// mappings.
func mappingAt(mappings []byte, address uintptr) (extent, bool) {
	for line := range bytes.Lines(mappings) {
		fields := strings.Fields(string(line))
		// Memory that is of no file has no name.
		if len(fields) != 5 || fields[1] != "rw-p" {
			continue
		}
		if found, ok := extentOf(fields[0]); ok && address-found.begin < found.length {
			return found, true
		}
	}
	return extent{}, false
}

// extent is a part of the address space.
type extent struct{ begin, length uintptr }

// programParts finds where a program is mapped as it is in its file, in the
// kernel's list of mappings. A part that was ever changed, by relocation or by a
// debugger, is not among them: it is nowhere else.
func programParts(mappings []byte, program string) []extent {
	var parts []extent
	var current extent
	lines := bufio.NewScanner(bytes.NewReader(mappings))
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		switch {
		case name == "Anonymous" || name == "Swap":
			if strings.TrimSpace(value) != "0 kB" {
				current = extent{}
			}
		case name == "VmFlags": // the last line of a mapping
			if current.length > 0 {
				parts = append(parts, current)
			}
			current = extent{}
		default:
			if found, ok := mappingOf(line, program); ok {
				current = found
			}
		}
	}
	return parts
}

// mappingOf reads the first line of a mapping: addresses, rights, offset, device,
// inode and file. It wants a private one of the program, which nobody may write.
func mappingOf(line, program string) (extent, bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 || strings.TrimLeft(fields[5], " ") != program || fields[1] != "r-xp" && fields[1] != "r--p" {
		return extent{}, false
	}
	return extentOf(fields[0])
}

// extentOf reads addresses such as 400000-401000.
func extentOf(text string) (extent, bool) {
	first, last, _ := strings.Cut(text, "-")
	begin, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return extent{}, false
	}
	end, err := strconv.ParseUint(last, 16, 64)
	if err != nil || end <= begin {
		return extent{}, false
	}
	return extent{uintptr(begin), uintptr(end - begin)}, true
}
