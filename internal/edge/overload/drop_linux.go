package overload

import "golang.org/x/sys/unix"

// dropPages has a mapping of a file be as it was made, with no page in it. An
// error leaves it as it is, which is as good.
func dropPages(part extent) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, part.begin, part.length, unix.MADV_DONTNEED)
}
