package confine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// apply uses what the kernel has, from what always works to what is newer.
func apply(limits Limits) []string {
	var missing []string
	note := func(what string, err error) {
		if err != nil {
			missing = append(missing, what+" ("+err.Error()+")")
		}
	}
	note("resource limits", setResourceLimits(limits))
	note("another user", dropUser())
	// What follows is for one thread, or for all by way of it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	note("no new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	note("landlock", restrictFiles())
	note("seccomp", filterCalls())
	return missing
}

// dataSlack is what Go's runtime maps beside the heap.
const dataSlack = 96 << 20

// setResourceLimits sets the rlimits of the process. The limit on data covers
// the heap of Go; a limit on the address space would not work, because the
// runtime reserves far more than it uses.
func setResourceLimits(limits Limits) error {
	set := func(resource int, value uint64) error {
		return unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value})
	}
	for resource, value := range map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_FSIZE:  0,
		unix.RLIMIT_NOFILE: 32,
	} {
		if err := set(resource, value); err != nil {
			return err
		}
	}
	if limits.CPUSeconds > 0 {
		if err := set(unix.RLIMIT_CPU, uint64(limits.CPUSeconds)); err != nil {
			return err
		}
	}
	if limits.MemoryBytes <= 0 {
		return nil
	}
	// Address space is no measure: Go reserves much more than it uses. What is
	// mapped to be written is one.
	return set(unix.RLIMIT_DATA, uint64(limits.MemoryBytes)+dataBytes()+dataSlack)
}

// dataBytes is what the process has mapped to be written already.
func dataBytes() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 6 {
		return 256 << 20
	}
	pages, _ := strconv.ParseUint(fields[5], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// The unprivileged user of Linux, 65534, owns no files.
const nobody = 65534

// dropUser changes a process of root to the unprivileged user.
func dropUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return err
	}
	return syscall.Setresuid(nobody, nobody, nobody)
}

// landlockRules is struct landlock_ruleset_attr.
type landlockRules struct {
	files, network, scope uint64
}

// restrictFiles denies every file and every connection: rules name what is
// denied, and nothing is allowed back.
func restrictFiles() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errno
	}
	// Bits that a version does not know are an error.
	rules, size := landlockRules{files: 1<<13 - 1}, uintptr(8)
	if version >= 2 {
		rules.files |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rules.files |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		rules.network, size = 3, 16
	}
	if version >= 5 {
		rules.files |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		rules.scope, size = 3, 24
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(set))
	// All threads have to do it, and before that give up new privileges.
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// usedCPUSeconds is the CPU time of the process in user and kernel mode.
func usedCPUSeconds() int64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Utime.Sec + usage.Stime.Sec
}
