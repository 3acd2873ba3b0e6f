package main

import (
	"time"

	"slipway.dev/slipway/internal/programs"
)

// usage is the resource usage of a process and its children. They matter,
// because nginx and HAProxy serve from worker processes.
type usage struct {
	// CPU is user and system time, including that of children that have ended
	// and been waited for.
	CPU time.Duration
	// Memory is the sum of resident memory in bytes; a page that several
	// processes share counts once for each of them.
	Memory int64
}

// measureTree adds up the usage of root and its children. It fails if root has
// ended.
func measureTree(root int) (usage, error) {
	own, err := programs.CPUTime(root)
	if err != nil {
		return usage{}, err
	}
	children, err := programs.ChildrenCPUTime(root)
	if err != nil {
		return usage{}, err
	}
	memory, err := programs.WithChildren(root, programs.ResidentMemory)
	return usage{own + children, memory}, err
}
