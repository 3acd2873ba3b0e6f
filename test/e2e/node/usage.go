package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource consumption of a container.
type Usage struct {
	// Own is the anonymous memory in bytes. Working adds the page cache in
	// active use, as kubectl top reports it. Resident is the sum of the RSS of
	// the processes, as ps reports it; it includes the pages of the program,
	// which containers of one image share, so the sum over containers is too
	// high.
	Own, Working, Resident int64
	// CPU is the processor time since the container started. Callers subtract
	// two measurements.
	CPU time.Duration
}

// Measure reads the control group of a container, given its ID as in the status
// of a Pod ("containerd://..."). It reads the kernel's files directly, so no
// metrics server is needed and the measurement does not load the API server.
func (n *Node) Measure(container string) (Usage, error) {
	_, id, ok := strings.Cut(container, "://")
	if !ok {
		return Usage{}, fmt.Errorf("%q is no container that runs", container)
	}
	// cgroup v2 has all controllers in one hierarchy. Otherwise the memory and
	// cpuacct hierarchies of v1 are read.
	if folder := findGroup("/sys/fs/cgroup"+n.group(), id); folder != "" {
		used, err := measureUnified(folder)
		if err == nil {
			used.Resident, err = residentIn(folder)
		}
		return used, err
	}
	memory, cpu := findGroup("/sys/fs/cgroup/memory"+n.group(), id), findGroup("/sys/fs/cgroup/cpuacct"+n.group(), id)
	if memory == "" || cpu == "" {
		return Usage{}, fmt.Errorf("the container %s has no control group", id)
	}
	used, err := measureSeparate(memory, cpu)
	if err == nil {
		used.Resident, err = residentIn(memory)
	}
	return used, err
}

// residentIn returns the sum of the RSS of all processes in a group.
func residentIn(folder string) (sum int64, err error) {
	list, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return 0, err
	}
	for _, id := range strings.Fields(string(list)) {
		status, err := os.ReadFile(filepath.Join("/proc", id, "status"))
		if err != nil {
			continue // the process has exited since
		}
		// A kernel thread or a zombie has no VmRSS line and counts as 0.
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		if fields := strings.Fields(rest); len(fields) > 0 {
			kibibytes, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += kibibytes << 10
		}
	}
	return sum, nil
}

// findGroup returns the folder of a container, which is below that of its Pod,
// or an empty string. It searches by ID, because the path contains the QoS
// class and the UID of the Pod.
func findGroup(top, id string) (found string) {
	_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == id {
			found = path
			return fs.SkipAll
		}
		return nil // groups come and go during the walk
	})
	return found
}

// measureUnified reads a cgroup v2 group. The working set is the usage without
// inactive file pages, which the kernel reclaims first; cAdvisor computes it
// the same way.
func measureUnified(folder string) (Usage, error) {
	current, err := readNumber(filepath.Join(folder, "memory.current"))
	if err != nil {
		return Usage{}, err
	}
	memory, err := readTable(filepath.Join(folder, "memory.stat"))
	if err != nil {
		return Usage{}, err
	}
	cpu, err := readTable(filepath.Join(folder, "cpu.stat"))
	return Usage{Own: memory["anon"], Working: current - memory["inactive_file"], CPU: time.Duration(cpu["usage_usec"]) * time.Microsecond}, err
}

// measureSeparate reads the groups of cgroup v1: memory from one hierarchy, and
// CPU time in nanoseconds from another.
func measureSeparate(folder, accounting string) (Usage, error) {
	current, err := readNumber(filepath.Join(folder, "memory.usage_in_bytes"))
	if err != nil {
		return Usage{}, err
	}
	memory, err := readTable(filepath.Join(folder, "memory.stat"))
	if err != nil {
		return Usage{}, err
	}
	cpu, err := readNumber(filepath.Join(accounting, "cpuacct.usage"))
	return Usage{Own: memory["total_rss"], Working: current - memory["total_inactive_file"], CPU: time.Duration(cpu)}, err
}

// readNumber reads a file with one number. A limit of "max" is an error; no
// caller reads a limit.
func readNumber(name string) (int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readTable reads lines of a name and a number, and skips lines of another
// form: newer kernels add some.
func readTable(name string) (map[string]int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	table := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			if table[fields[0]], err = strconv.ParseInt(fields[1], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return table, nil
}
