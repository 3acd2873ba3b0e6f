package upstream

import (
	"net"
	"os"
	"syscall"
)

// link is a connection with what is below it.
type link struct {
	conn net.Conn // what requests travel over
	tap  *tap     // nil without TLS
	// raw is the socket below, and fd its number; raw is nil where there is none.
	raw syscall.RawConn
	fd  int
	// http2 says that the endpoint speaks HTTP/2 on it.
	http2 bool
}

// abort closes the connection below TLS, without a word.
func (l *link) abort() error {
	if l.tap != nil {
		return l.tap.Close()
	}
	return l.conn.Close()
}

// hasUnread reports whether something decrypted waits to be read, which no look
// at the socket would show. It makes no system call.
func (l *link) hasUnread() bool {
	if l.tap == nil {
		return false
	}
	l.tap.blocked = true
	defer func() { l.tap.blocked = false }()
	n, err := l.conn.Read(l.tap.scratch[:])
	// Anything but a read that found nothing, such as a goodbye, ends the
	// connection's use too.
	return n > 0 || err != os.ErrDeadlineExceeded
}

// peerState is what the other end of an idle connection does.
type peerState uint8

const (
	peerQuiet peerState = iota
	peerClosed
	peerSent
)

// attach lets the link look at its socket.
func (l *link) attach(socket syscall.Conn) {
	raw, err := socket.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { l.fd = int(fd) })
	}
	if err == nil { // else it is closed
		l.raw = raw
	}
}

// peerState peeks at the socket. It does not touch deadlines: the last one may be
// over, and setting one costs more than the look. Only who owns the connection
// may look, so that nobody closes it meanwhile: the number is used as it is,
// because asking for it anew takes as long as the look.
func (l *link) peerState() peerState {
	if l.raw == nil {
		return peerClosed
	}
	return peek(l.fd)
}

// tap is the socket below TLS. While it is shut, reads find nothing, as they
// do after a deadline; TLS can go on afterwards.
type tap struct {
	*net.TCPConn
	blocked bool
	scratch [1]byte // for residue
}

// Read reads from the socket.
func (t *tap) Read(b []byte) (int, error) {
	if t.blocked {
		return 0, os.ErrDeadlineExceeded
	}
	return t.TCPConn.Read(b)
}
