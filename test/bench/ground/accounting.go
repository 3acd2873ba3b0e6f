package ground

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// ResidentMemory is what a process has in memory now, in bytes. It is had for
// next to nothing, which ProportionalMemory is not: for that the kernel visits
// every page.
func ResidentMemory(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("the kernel does not say how much memory process %d has", pid)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Children are the processes that a process has started and that run.
func Children(pid int) ([]int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var children []int
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	}
	return children, nil
}

// CPUTime is the processor time that a process has used itself. It comes from the
// process's own clock, because /proc has hundredths of a second: too little where
// short loads are compared.
func CPUTime(pid int) (time.Duration, error) {
	// As clock_getcpuclockid does; 2 is the clock of what the scheduler gave.
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil {
		return 0, fmt.Errorf("the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// ChildrenCPUTime is the processor time that the processes have used which a
// process has started, those that have ended too.
func ChildrenCPUTime(pid int) (time.Duration, error) {
	_, total, err := readCPUTime(pid)
	if err != nil {
		return 0, err
	}
	children, err := Children(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range children {
		if own, below, err := readCPUTime(child); err == nil { // it may have ended
			total += own + below
		}
	}
	return total, nil
}

// readCPUTime is the processor time of a process, and of those that it has
// started and that have ended.
func readCPUTime(pid int) (own, ended time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseCPUTime(text)
}

// parseCPUTime reads a line of /proc/<pid>/stat. The name of the program is in
// brackets and may hold anything, brackets too, so fields are counted from the
// last one.
func parseCPUTime(text []byte) (own, ended time.Duration, err error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const user, children = 11, 13 // the state, field 3 of proc(5), is at 0 here; system time follows each
	if len(fields) <= children+1 {
		return 0, 0, fmt.Errorf("not the form of a process: %q", text)
	}
	sum := func(first int) (total time.Duration) {
		for _, field := range fields[first : first+2] {
			ticks, problem := strconv.ParseInt(string(field), 10, 64)
			err = errors.Join(err, problem)
			total += time.Duration(ticks) * clockTick
		}
		return total
	}
	own, ended = sum(user), sum(children)
	return own, ended, err
}
