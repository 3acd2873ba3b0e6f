package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged closes a TCP connection whose data is not acknowledged
// within a timeout (TCP_USER_TIMEOUT, RFC 5482).
func boundUnacknowledged(fd int, timeout time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
}
