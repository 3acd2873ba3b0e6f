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

// Usage is what a container uses.
type Usage struct {
	// Own is the memory that nobody else has, in bytes, and Working that with the
	// cache of files in use, which kubectl top shows. Resident is what its processes
	// have in memory, as ps shows it: with the program, whose pages containers of one
	// image share.
	Own, Working, Resident int64
	// CPU is the time since its start.
	CPU time.Duration
}

// Measure reads the control group of a container, named as in the status of a Pod.
func (n *Node) Measure(container string) (Usage, error) {
	_, id, ok := strings.Cut(container, "://")
	if !ok {
		return Usage{}, fmt.Errorf("%q is no container that runs", container)
	}
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

// residentIn sums up the processes of a group.
func residentIn(folder string) (sum int64, err error) {
	list, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return 0, err
	}
	for _, id := range strings.Fields(string(list)) {
		status, err := os.ReadFile(filepath.Join("/proc", id, "status"))
		if err != nil {
			continue // it has ended meanwhile
		}
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

// findGroup finds the folder of a container, which is below that of its Pod.
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

// measureUnified reads a group of version 2.
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

// measureSeparate reads the groups of version 1, one for each controller.
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

func readNumber(name string) (int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readTable reads lines of a name and a number.
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
