//go:build unix

package h1

import (
	"io"
	"os"
	"syscall"
)

// turn lets a [Reader] write a request in the same wait in which it reads the
// response. It saves the system call that tells that a response has not come
// yet, which is half of all reads: the poller is made ready before the request
// is written, so whatever comes after that wakes it up.
type turn struct {
	raw  syscall.RawConn // nil when there is no way to do it
	step func(fd uintptr) bool
	// writer and out are a request that is not written yet.
	writer *Writer
	out    []byte
	wrote  bool
	failed error
}

// Pair lets [Reader.Ask] save a system call. raw is that of the Reader's TCP
// connection. There must be nothing to read when a request is asked.
func (r *Reader) Pair(raw syscall.RawConn) {
	r.turn = turn{raw: raw, step: r.takeTurn} // step is made once: a request must not cost memory
}

// Ask writes a request without a body to the other end of the Reader's
// connection, at the latest when its response is read. Until then b must not
// change, and nothing else be written.
func (r *Reader) Ask(w *Writer, b []byte) error {
	if r.turn.raw == nil || len(b) == 0 {
		_, err := w.Write(b)
		return err
	}
	r.turn.writer, r.turn.out = w, b
	return nil
}

// exchangeTurns writes the request that was asked, and reads the first of the
// answer. The read deadline is set.
func (r *Reader) exchangeTurns() error {
	t := &r.turn
	if t.out == nil {
		return r.readOnce()
	}
	t.wrote, t.failed = false, nil
	err := t.raw.Read(t.step)
	if err == nil {
		err = t.failed
	}
	rest := t.out
	t.out = nil
	if err != nil || t.wrote {
		return err
	}
	if _, err := t.writer.Write(rest); err != nil {
		return err
	}
	return r.readOnce()
}

// takeTurn is called by the poller: first to write, then whenever there may be
// something to read. It reports whether it is done.
func (r *Reader) takeTurn(fd uintptr) bool {
	t := &r.turn
	if !t.wrote {
		n, err := retry(syscall.Write, int(fd), t.out)
		if err != nil && err != syscall.EAGAIN {
			t.failed = &WriteError{os.NewSyscallError("write", err)}
			return true
		}
		t.out = t.out[max(n, 0):]
		t.wrote = len(t.out) == 0
		return !t.wrote // the rest of a large head goes the usual way
	}
	n, err := retry(syscall.Read, int(fd), r.buf[r.w:])
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		t.failed = os.NewSyscallError("read", err)
	case n == 0:
		t.failed = io.EOF
	default:
		r.w += n
	}
	return true
}

func retry(call func(int, []byte) (int, error), fd int, buf []byte) (int, error) {
	for {
		n, err := call(fd, buf)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
