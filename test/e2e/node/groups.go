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

// groupRoots are the folders in which control groups of this node are made: the
// only one of version 2, or one for each controller of version 1, beside which
// version 2 may be there without any.
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

// group is the name of the node's control group, which no other run has.
func (n *Node) group() string { return "/" + filepath.Base(n.cfg.Work) }

func (n *Node) makeGroups() error {
	roots, err := groupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		group := root + n.group()
		// With version 2 a controller is there when the group above gives it. One that the machine lacks is the kubelet's to miss.
		for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
			_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		// A group of the controller for processors and memory nodes begins without any.
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

// removeGroups ends what is in the groups and removes them, deepest first. The kernel needs a moment for
// those whose processes have just ended.
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

// endGroup ends the processes of containers that are still there: those of a run
// that failed.
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
			if id, wrong := strconv.Atoi(word); wrong == nil && id > 1 {
				_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended meanwhile
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		return err
	})
}

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
