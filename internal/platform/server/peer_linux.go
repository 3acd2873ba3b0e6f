package server

import "golang.org/x/sys/unix"

// peerUID returns the user at the other end of a Unix socket, -1 if the kernel
// does not report one.
func peerUID(fd int) int {
	credentials, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1
	}
	return int(credentials.Uid)
}
