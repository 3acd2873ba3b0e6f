//go:build linux

package eventloop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that cannot block do without the hand-over of the processor that others need:
// it takes as long as parsing a head.

// pollEvents returns the events that are there.
func pollEvents(epoll int, events []unix.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// readNow reads from a non-blocking socket.
func readNow(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// writeNow writes to a non-blocking socket.
func writeNow(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// writeVector writes several pieces to a non-blocking socket.
func writeVector(fd int, vector []syscall.Iovec) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(vector))), uintptr(len(vector)))
	return int(n), errno
}

// acceptNow takes a connection from the queue of a non-blocking listener.
func acceptNow(fd int, address *syscall.RawSockaddrAny) (int, syscall.Errno) {
	size := uint32(syscall.SizeofSockaddrAny)
	n, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(address)), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}
