package ground

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every
// machine that Go runs on.
const clockTick = 10 * time.Millisecond

// Memory is what a process has in memory, in bytes.
type Memory struct {
	Resident int64 // now
	Most     int64 // ever
}

// ReadMemory asks the kernel for the memory of a process.
func ReadMemory(pid int) (Memory, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.Resident, "VmHWM": &m.Most}[name]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, err
		}
		*into = kilobytes << 10
	}
	if m.Resident == 0 || m.Most == 0 {
		return Memory{}, fmt.Errorf("the kernel does not say how much memory process %d has", pid)
	}
	return m, nil
}

// ProportionalMemory is what a process has in memory, in bytes. Pages that
// several processes share, such as those of their program, are divided by their
// number, so that a sum counts them once.
func ProportionalMemory(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "Pss:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not say how much memory process %d has", pid)
}

// CPUTime is the processor time that a process has used.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	return parseCPUTime(text)
}

// parseCPUTime reads a line of /proc/<pid>/stat. The name of the program is in
// brackets and may hold anything, brackets too, so fields are counted from the
// last one.
func parseCPUTime(text []byte) (time.Duration, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const user, system = 11, 12 // the state, field 3 of proc(5), is at 0 here
	if len(fields) <= system {
		return 0, fmt.Errorf("not the form of a process: %q", text)
	}
	var sum time.Duration
	for _, i := range []int{user, system} {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * clockTick
	}
	return sum, nil
}
