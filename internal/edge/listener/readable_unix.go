//go:build unix

package listener

import "syscall"

// readable reports whether a read of the socket would not have to wait: there are
// bytes, or the client has ended the connection.
func readable(fd uintptr) (ready, ended bool) {
	var one [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err != syscall.EAGAIN, n == 0 && err == nil
		}
	}
}
