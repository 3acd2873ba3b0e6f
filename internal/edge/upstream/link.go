package upstream

import (
	"net"
	"os"
	"syscall"

	"slipway.dev/slipway/internal/edge/eventloop"
)

// link is a connection with the layers below it.
type link struct {
	conn net.Conn // what requests are written to
	// loop is conn where an event loop has the socket, which then has no raw.
	loop *eventloop.Conn
	tap  *tap // nil without TLS
	// raw is the socket below, and fd its descriptor; raw is nil where there is
	// none.
	raw syscall.RawConn
	fd  int
	// http2 is set if the endpoint speaks HTTP/2 on it.
	http2 bool
}

// abort closes the connection below TLS, without close_notify.
func (l *link) abort() error {
	if l.tap != nil {
		return l.tap.Close()
	}
	return l.conn.Close()
}

// hasUnread reports whether decrypted bytes wait to be read, which a peek at
// the socket does not show. It makes no system call.
func (l *link) hasUnread() bool {
	if l.tap == nil {
		return false
	}
	l.tap.blocked = true
	defer func() { l.tap.blocked = false }()
	n, err := l.conn.Read(l.tap.scratch[:])
	// Any other result, such as a close_notify, means that the connection
	// cannot be used again either.
	return n > 0 || err != os.ErrDeadlineExceeded
}

// peerState is what the peer of an idle connection did.
type peerState uint8

const (
	peerQuiet peerState = iota
	peerClosed
	peerSent
)

// attach finds the socket of the link, for peeking.
func (l *link) attach(socket syscall.Conn) {
	raw, err := socket.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { l.fd = int(fd) })
	}
	if err == nil { // otherwise it is closed
		l.raw = raw
	}
}

// peerState peeks at the socket. It does not touch deadlines: the last one may
// have passed, and setting one costs more than the peek. Only the owner of the
// connection may call it, so that the connection is not closed meanwhile: the
// descriptor is used directly, because going through RawConn takes as long as
// the peek. An event loop that has waited since a count of waits would have heard of the
// peer, so there nothing has to be asked for (decision 0087).
func (l *link) peerState(waits uint64) peerState {
	if l.loop != nil {
		if l.loop.Quiet(waits) {
			return peerQuiet
		}
		return peek(l.loop.Descriptor())
	}
	if l.raw == nil {
		return peerClosed
	}
	return peek(l.fd)
}

// tap is the socket below TLS. While it is blocked, reads fail as they do after
// a deadline; TLS can go on afterwards.
type tap struct {
	*net.TCPConn
	blocked bool
	scratch [1]byte // for hasUnread
}

// Read reads from the socket.
func (t *tap) Read(b []byte) (int, error) {
	if t.blocked {
		return 0, os.ErrDeadlineExceeded
	}
	return t.TCPConn.Read(b)
}
