package programs

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

// clockTick is the unit of the times in /proc/<pid>/stat: USER_HZ, which is 100
// on every platform that Go supports.
const clockTick = 10 * time.Millisecond

// Memory is the resident memory of one process in bytes, as /proc/<pid>/status
// reports it.
type Memory struct {
	Resident int64 // now
	Most     int64 // ever
}

// ReadMemory reads the current and the peak resident memory of a process. It
// fails if the process has ended, or if the kernel does not report both fields,
// as for a zombie.
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
		return Memory{}, fmt.Errorf("the kernel does not report the memory of process %d", pid)
	}
	return m, nil
}

// ProportionalMemory returns the proportional set size (PSS) of a process in
// bytes. The kernel divides pages that several processes share, such as those
// of their executable, by the number of processes, so that a sum over a process
// tree counts each page once.
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
	return 0, fmt.Errorf("the kernel does not report the memory of process %d", pid)
}

// ResidentMemory returns the current resident memory of a process in bytes.
// Reading statm is cheap enough for a sampling loop; ProportionalMemory is not,
// because the kernel walks every page of the process for it.
func ResidentMemory(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("the kernel does not report the memory of process %d", pid)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Children lists the running child processes of a process. The kernel keeps one
// list per thread, so all threads of the process are read.
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

// WithChildren adds up a figure of a process and of its child processes. A child
// that ends meanwhile counts as zero.
func WithChildren(pid int, figure func(pid int) (int64, error)) (int64, error) {
	total, err := figure(pid)
	if err != nil {
		return 0, err
	}
	children, err := Children(pid)
	for _, child := range children {
		if more, err := figure(child); err == nil { // it may have ended
			total += more
		}
	}
	return total, err
}

// CPUTime returns the CPU time of the process itself, without its children. It
// reads the process's CPU clock, because /proc counts in hundredths of a
// second, which is too coarse to compare short loads.
func CPUTime(pid int) (time.Duration, error) {
	// This is the clock ID that clock_getcpuclockid(3) computes; 2 selects
	// CPUCLOCK_SCHED, the time on the scheduler.
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil {
		return 0, fmt.Errorf("the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// ChildrenCPUTime returns the CPU time of all direct children of a process and
// of their reaped descendants. It adds the children that the process has
// already waited for to those that still run.
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

// readCPUTime returns the CPU time of a process, and of its descendants that
// have ended and been waited for.
func readCPUTime(pid int) (own, ended time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseCPUTime(text)
}

// parseCPUTime parses a line of /proc/<pid>/stat. The command name is in
// parentheses and may itself contain spaces and parentheses, so fields are
// counted from the last closing one.
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
