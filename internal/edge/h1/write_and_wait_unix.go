//go:build unix

package h1

import (
	"io"
	"os"
	"syscall"
)

// writeAndWait lets a [Reader] write a request in the same wait in which it reads the
// response. It saves the system call that tells that a response has not come
// yet, which is half of all reads: the poller is made ready before the request
// is written, so whatever comes after that wakes it up.
type writeAndWait struct {
	raw  syscall.RawConn // nil when there is no way to do it
	step func(fd uintptr) bool
	// writer and out are a request that is not written yet.
	writer *Writer
	out    []byte
	wrote  bool
	failed error
}

// UseRawConn lets [Reader.Ask] save a system call. raw is that of the Reader's TCP
// connection. There must be nothing to read when a request is asked.
func (r *Reader) UseRawConn(raw syscall.RawConn) {
	r.combined = writeAndWait{raw: raw, step: r.pollStep} // step is made once: a request must not cost memory
}

// DeferWrite writes a request without a body to the other end of the Reader's
// connection, at the latest when its response is read. Until then b must not
// change, and nothing else be written.
func (r *Reader) DeferWrite(w *Writer, b []byte) error {
	if r.combined.raw == nil || len(b) == 0 {
		_, err := w.Write(b)
		return err
	}
	r.combined.writer, r.combined.out = w, b
	return nil
}

// writeThenRead writes the request that was asked, and reads the first of the
// answer. The read deadline is set.
func (r *Reader) writeThenRead() error {
	t := &r.combined
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

// pollStep is called by the poller: first to write, then whenever there may be
// something to read. It reports whether it is done.
func (r *Reader) pollStep(fd uintptr) bool {
	t := &r.combined
	if !t.wrote {
		n, err := ignoringEINTR(syscall.Write, int(fd), t.out)
		if err != nil && err != syscall.EAGAIN {
			t.failed = &WriteError{os.NewSyscallError("write", err)}
			return true
		}
		t.out = t.out[max(n, 0):]
		t.wrote = len(t.out) == 0
		return !t.wrote // the rest of a large head goes the usual way
	}
	n, err := ignoringEINTR(syscall.Read, int(fd), r.buf[r.w:])
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

func ignoringEINTR(call func(int, []byte) (int, error), fd int, buf []byte) (int, error) {
	for {
		n, err := call(fd, buf)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
