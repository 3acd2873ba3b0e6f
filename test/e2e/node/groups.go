package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// groupRoots returns the mount points in which the node's control groups are
// created: the unified hierarchy of cgroup v2, or one per controller of cgroup
// v1. A hybrid host also mounts an empty v2 hierarchy, which is included.
func groupRoots() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var roots []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			roots = append(roots, fields[1])
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("the machine has no control groups in /sys/fs/cgroup")
	}
	return roots, nil
}

// group returns the name of the node's control group. It is the base name of
// the working folder, so parallel runs do not share one.
func (n *Node) group() string { return "/" + filepath.Base(n.cfg.Work) }

// makeGroups creates the control group of the node in each hierarchy. The
// kubelet expects its cgroupRoot to exist.
func (n *Node) makeGroups() error {
	roots, err := groupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		group := root + n.group()
		// In cgroup v2 a controller is available only if the parent enables it.
		// Errors are ignored: a missing controller is reported by the kubelet.
		for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
			_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		// A new cpuset group of v1 is empty, and no process can join it until
		// it has CPUs and memory nodes.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(group, name), value, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroups kills the processes in the groups and removes them, deepest
// first. It retries until stopTimeout, because the kernel reports a group as
// busy for a moment after its last process has exited.
func (n *Node) removeGroups() error {
	roots, err := groupRoots()
	if err != nil {
		return err
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		var problems []error
		for _, root := range roots {
			problems = append(problems, endGroup(root+n.group()), removeTree(root+n.group()))
		}
		err := errors.Join(problems...)
		if err == nil {
			return nil
		}
		select {
		case <-late.C:
			return fmt.Errorf("control groups are left: %w", err)
		case <-tick.C:
		}
	}
}

// endGroup kills the container processes that are left in a group. A run that
// succeeded has none; after a failure the Pods are still running.
func endGroup(top string) error {
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		list, err := os.ReadFile(path)
		for _, word := range strings.Fields(string(list)) {
			// Reading cgroup.procs from another PID namespace yields 0, and 1
			// is the init process of this one: neither may be killed.
			if id, wrong := strconv.Atoi(word); wrong == nil && id > 1 {
				_ = syscall.Kill(id, syscall.SIGKILL) // it may have exited since
			}
		}
		// The kernel returns ENODEV for a group that is removed during the
		// read.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		return err
	})
}

// removeTree removes a group and everything below it. The kernel removes a
// group only by rmdir and only if it has no children; os.RemoveAll would fail
// on the control files.
func removeTree(top string) error {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	slices.Reverse(folders)
	for _, folder := range folders {
		err = errors.Join(err, os.Remove(folder))
	}
	return err
}
