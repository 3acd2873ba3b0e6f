package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every
// machine that Go runs on.
const clockTick = 10 * time.Millisecond

// usage is what a process and all its descendants have used.
type usage struct {
	// CPU is user and system time, that of descendants that have ended and
	// were waited for included.
	CPU time.Duration
	// Memory is the resident memory in bytes; what processes share counts for
	// each of them.
	Memory    int64
	Processes int
}

// processStat is the part of /proc/<pid>/stat that counts.
type processStat struct {
	parent int
	cpu    time.Duration
	pages  int64
}

// measureTree adds up a process and its descendants.
func measureTree(root int) (usage, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	stats, children := map[int]processStat{}, map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
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
	for waiting := []int{root}; len(waiting) > 0; {
		pid := waiting[0]
		waiting = append(waiting[1:], children[pid]...)
		total.CPU += stats[pid].cpu
		total.Memory += stats[pid].pages * int64(os.Getpagesize())
		total.Processes++
	}
	return total, nil
}

// parseStat reads a line of /proc/<pid>/stat. The name of the program is in
// brackets and may hold anything, brackets too, so fields are counted from the
// last one.
func parseStat(text []byte) (pid int, stat processStat, err error) {
	open, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || last < open {
		return 0, stat, fmt.Errorf("not the form of a process: %q", text)
	}
	if pid, err = strconv.Atoi(string(bytes.TrimSpace(text[:open]))); err != nil {
		return 0, stat, err
	}
	// Field 3 of proc(5), the state, is at 0 here.
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
