//go:build unix

package listener

import (
	"golang.org/x/sys/unix"
)

// duplicate returns another descriptor of a socket.
func duplicate(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }
