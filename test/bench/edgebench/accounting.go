package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of the times in /proc/<pid>/stat: USER_HZ, which is 100
// on every platform that Go supports.
const clockTick = 10 * time.Millisecond

// usage is the resource usage of a process and all its descendants. The tree
// matters, because nginx and HAProxy serve from worker processes.
type usage struct {
	// CPU is user and system time, including that of descendants that have
	// ended and been waited for.
	CPU time.Duration
	// Memory is the sum of resident memory in bytes; a page that several
	// processes share counts once for each of them.
	Memory    int64
	Processes int
}

// processStat holds the fields of /proc/<pid>/stat that the benchmark needs.
type processStat struct {
	parent int
	cpu    time.Duration
	pages  int64
}

// measureTree adds up the usage of root and its descendants. It reads the stat
// file of every process once, which has both the parent and the usage. It fails
// if root has ended.
func measureTree(root int) (usage, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	stats, children := map[int]processStat{}, map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		pid, stat, err := parseStat(text)
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", file, err)
		}
		stats[pid] = stat
		children[stat.parent] = append(children[stat.parent], pid)
	}
	if _, ok := stats[root]; !ok {
		return usage{}, fmt.Errorf("process %d is gone", root)
	}
	var total usage
	// This is a breadth-first walk from root over the parent links.
	for waiting := []int{root}; len(waiting) > 0; {
		pid := waiting[0]
		waiting = append(waiting[1:], children[pid]...)
		total.CPU += stats[pid].cpu
		total.Memory += stats[pid].pages * int64(os.Getpagesize())
		total.Processes++
	}
	return total, nil
}

// parseStat parses a line of /proc/<pid>/stat. The command name is in
// parentheses and may itself contain spaces and parentheses, so fields are
// counted from the last closing one.
func parseStat(text []byte) (pid int, stat processStat, err error) {
	open, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || last < open {
		return 0, stat, fmt.Errorf("not the form of a process: %q", text)
	}
	if pid, err = strconv.Atoi(string(bytes.TrimSpace(text[:open]))); err != nil {
		return 0, stat, err
	}
	// Offsets count from the state, field 3 of proc(5). The four times are
	// utime, stime, cutime and cstime.
	const parent, firstTime, lastTime, pages = 1, 11, 14, 21
	fields := bytes.Fields(text[last+1:])
	if len(fields) <= pages {
		return 0, stat, fmt.Errorf("too few fields: %q", text)
	}
	number := func(i int) int64 {
		n, failed := strconv.ParseInt(string(fields[i]), 10, 64)
		if failed != nil {
			err = failed
		}
		return n
	}
	stat.parent = int(number(parent))
	for i := firstTime; i <= lastTime; i++ {
		stat.cpu += time.Duration(number(i)) * clockTick
	}
	stat.pages = number(pages)
	return pid, stat, err
}
