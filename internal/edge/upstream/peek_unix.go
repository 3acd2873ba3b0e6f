//go:build unix

package upstream

import "syscall"

// peek checks for a byte without taking it and without waiting.
func peek(fd int) peerState {
	var one [1]byte
	for {
		n, _, err := syscall.Recvfrom(fd, one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return peerQuiet
		case err == nil && n > 0:
			return peerSent
		default:
			return peerClosed
		}
	}
}
