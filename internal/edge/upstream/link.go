package upstream

import (
	"net"
	"os"
	"syscall"
)

// link is a connection with what is below it.
type link struct {
	conn net.Conn // what requests travel over
	eye  *eye     // looks at the socket; nil without one
	tap  *tap     // nil without TLS
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

// residue reports whether something decrypted waits to be read, which no look
// at the socket would show. It makes no system call.
func (l *link) residue() bool {
	if l.tap == nil {
		return false
	}
	l.tap.shut = true
	defer func() { l.tap.shut = false }()
	n, err := l.conn.Read(l.tap.scratch[:])
	// Anything but a read that found nothing, such as a goodbye, ends the
	// connection's use too.
	return n > 0 || err != os.ErrDeadlineExceeded
}

// ending is what the other end of an idle connection does.
type ending uint8

const (
	endQuiet ending = iota
	endClosed
	endTalking
)

// eye looks at the socket of a connection. It is made once, because a look at
// every use must not cost memory.
type eye struct {
	raw  syscall.RawConn
	seen ending
	step func(fd uintptr)
}

// newEye makes the eye of a socket, nil when the socket is closed.
func newEye(conn syscall.Conn) *eye {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	e := &eye{raw: raw}
	e.step = func(fd uintptr) { e.seen = peek(int(fd)) }
	return e
}

// look peeks at the socket. It does not touch deadlines: the last one may be
// over, and setting one costs more than the look.
func (l *link) look() ending {
	if l.eye == nil {
		return endClosed
	}
	l.eye.seen = endClosed
	// Control, unlike Read, does not care for deadlines. Its error means that
	// the connection is closed.
	_ = l.eye.raw.Control(l.eye.step)
	return l.eye.seen
}

// tap is the socket below TLS. While it is shut, reads find nothing, as they
// do after a deadline; TLS can go on afterwards.
type tap struct {
	*net.TCPConn
	shut    bool
	scratch [1]byte // for residue
}

// Read reads from the socket.
func (t *tap) Read(b []byte) (int, error) {
	if t.shut {
		return 0, os.ErrDeadlineExceeded
	}
	return t.TCPConn.Read(b)
}
