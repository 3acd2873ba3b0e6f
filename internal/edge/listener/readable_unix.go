//go:build unix

package listener

import "syscall"

// readable reports whether a read of the socket would not have to wait: there are
// bytes, or the client has closed the connection.
func readable(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN
		}
	}
}
