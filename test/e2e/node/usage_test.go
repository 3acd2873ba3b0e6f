package node

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// files writes files below a folder.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		must.Do(t, write(filepath.Join(dir, name), text))
	}
	return dir
}

// TestUsage reads what the kernel writes, in both versions of control groups.
func TestUsage(t *testing.T) {
	want := Usage{Own: 25_000_000, Working: 27_000_000, CPU: 1500 * time.Millisecond}
	unified := files(t, map[string]string{
		"memory.current": "30000000\n", "memory.stat": "anon 25000000\nfile 5000000\ninactive_file 3000000\n",
		"cpu.stat": "usage_usec 1500000\nuser_usec 1000000\n",
	})
	if used, err := measureUnified(unified); err != nil || used != want {
		t.Errorf("version 2 is %+v: %v", used, err)
	}
	separate := files(t, map[string]string{
		"memory/memory.usage_in_bytes": "30000000\n", "memory/memory.stat": "rss 1\ntotal_rss 25000000\ntotal_inactive_file 3000000\n",
		"cpu/cpuacct.usage": "1500000000\n",
	})
	if used, err := measureSeparate(filepath.Join(separate, "memory"), filepath.Join(separate, "cpu")); err != nil || used != want {
		t.Errorf("version 1 is %+v: %v", used, err)
	}
	if _, err := measureUnified(t.TempDir()); err == nil {
		t.Error("a group that is not there is measured")
	}
}

// TestFindGroup: a container is found below its Pod, wherever that is.
func TestFindGroup(t *testing.T) {
	top := files(t, map[string]string{"kubepods/burstable/pod1/abc/cgroup.procs": "", "kubepods/pod2/def/cgroup.procs": ""})
	for id, want := range map[string]string{"abc": "kubepods/burstable/pod1/abc", "def": "kubepods/pod2/def", "ghi": ""} {
		if want != "" {
			want = filepath.Join(top, want)
		}
		if found := findGroup(top, id); found != want {
			t.Errorf("%s is at %q, not %q", id, found, want)
		}
	}
}

// TestRemoveTree: folders go, deepest first; what is gone already is no error.
func TestRemoveTree(t *testing.T) {
	top := filepath.Join(t.TempDir(), "group")
	must.Do(t, os.MkdirAll(filepath.Join(top, "a", "b"), 0o755))
	for range 2 {
		must.Do(t, removeTree(top))
	}
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
}

// TestResident: a process is counted as the kernel reports it.
func TestResident(t *testing.T) {
	group := files(t, map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid()) + "\n"})
	if used, err := residentIn(group); err != nil || used < 1<<20 {
		t.Errorf("this process has %d bytes: %v", used, err)
	}
	if used, err := residentIn(files(t, map[string]string{"cgroup.procs": ""})); err != nil || used != 0 {
		t.Errorf("no process has %d bytes: %v", used, err)
	}
}
