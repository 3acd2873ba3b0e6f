package confine

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errNoFilter is returned on architectures without a list of system calls.
var errNoFilter = errors.New("not written for this kind of machine")

// filterCalls installs a seccomp filter that fails system calls which a render
// never needs: to run a program, create a process, open a file, use the
// network, or inspect and change the rest of the machine. It applies to all
// threads.
func filterCalls() error {
	if auditArch == 0 {
		return errNoFilter
	}
	program := buildFilter()
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const setModeFilter = 1
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Where seccomp_data has its fields.
const (
	offsetNumber   = 0
	offsetArch     = 4
	offsetArgument = 16 // lower half of the first one
)

// buildFilter compiles the filter: it checks the architecture first, because
// numbers of system calls differ, and then denies the listed calls.
func buildFilter() []unix.SockFilter {
	deny := uint32(unix.SECCOMP_RET_ERRNO | unix.EPERM)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	result := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	equal := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	program := []unix.SockFilter{
		load(offsetArch),
		equal(auditArch, 1, 0),
		result(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNumber),
		// Numbers of another table for the same machine.
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jt: 0, Jf: 1},
		result(deny),
		// Threads are fine, processes are not. The flags of clone3 cannot be
		// seen; without it, clone is used.
		equal(unix.SYS_CLONE3, 0, 1),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		equal(unix.SYS_CLONE, 0, 4),
		load(offsetArgument),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 0, Jf: 1},
		result(unix.SECCOMP_RET_ALLOW),
		result(deny),
	}
	for _, number := range append(deniedCalls(), deniedHere()...) {
		program = append(program, equal(number, 0, 1), result(deny))
	}
	return append(program, result(unix.SECCOMP_RET_ALLOW))
}

// deniedCalls are those that every machine has.
func deniedCalls() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_KILL, unix.SYS_TKILL,
		unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT,
		unix.SYS_SYMLINKAT, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_TRUNCATE,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_CHDIR, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_CREATE,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_REBOOT,
		unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT,
	}
}
