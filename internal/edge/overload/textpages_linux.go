package overload

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DropTextPages drops the pages of the program's text and read-only data that
// only the start has used (decision 0023). The kernel brings pages back from its
// page cache when they are used again. Agents and render workers do it too, when
// they have started.
func DropTextPages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, part := range programParts(mappings, program) {
		// An error leaves the pages, which does no harm.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, part.begin, part.length, unix.MADV_DONTNEED)
	}
}

// extent is a range of the address space.
type extent struct{ begin, length uintptr }

// programParts finds the mappings of a program that are unchanged from its file.
// A mapping with pages that were ever written, by relocation or by a debugger, is
// left out: dropping it would lose them.
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

// mappingOf parses the first line of a mapping: addresses, permissions, offset,
// device, inode and file. It accepts only a private mapping of the program that
// is not writable.
func mappingOf(line, program string) (extent, bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 || strings.TrimLeft(fields[5], " ") != program || fields[1] != "r-xp" && fields[1] != "r--p" {
		return extent{}, false
	}
	return extentOf(fields[0])
}

// extentOf parses addresses such as 400000-401000.
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
