package listener

import "golang.org/x/sys/unix"

// The states of a TCP connection whose other end will send nothing any more.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// Gone reports whether the client has ended the connection, without reading
// from it: what it has sent may still be there. A client that only ended its own
// side cannot be told from one that is gone.
func (c *Conn) Gone() bool {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return true
	}
	gone := true // a socket that is closed
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		gone = err != nil || info.State == tcpClose || info.State == tcpCloseWait
	})
	return gone
}
