package listener

import "golang.org/x/sys/unix"

// The states of a TCP connection whose peer will send nothing any more.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// Gone reports whether the client has closed the connection, without reading
// from it: bytes that it sent before may still be unread. A client that only
// closed its sending side cannot be distinguished from one that is gone.
func (c *Conn) Gone() bool {
	gone := true // a socket that is closed
	look := func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		gone = err != nil || info.State == tcpClose || info.State == tcpCloseWait
	}
	if loop := c.Loop(); loop != nil {
		_ = loop.Control(look)
	} else if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(look)
	}
	return gone
}
