//go:build unix

package h1

import (
	"io"
	"os"
	"syscall"
)

// writeAndWait combines the write of a request with the wait for its response. It
// saves the read that would only find that the response has not come yet, which is
// half of all reads: the poller is armed before the request is written, so bytes
// that arrive after that wake it up.
type writeAndWait struct {
	raw  syscall.RawConn // nil where it is not supported
	step func(fd uintptr) bool
	// writer and out are the deferred request.
	writer *Writer
	out    []byte
	wrote  bool
	failed error
}

// UseRawConn lets [Reader.DeferWrite] save a system call. raw is that of the Reader's
// TCP connection. There must be no unread bytes when a request is deferred.
func (r *Reader) UseRawConn(raw syscall.RawConn) {
	r.combined = writeAndWait{raw: raw, step: r.pollStep} // made once, so that a request allocates nothing
}

// DeferWrite writes a request without a body, at the latest when its response is
// read. Until then b must not change, and nothing else be written.
func (r *Reader) DeferWrite(w *Writer, b []byte) error {
	if r.combined.raw == nil || len(b) == 0 {
		_, err := w.Write(b)
		return err
	}
	r.combined.writer, r.combined.out = w, b
	return nil
}

// writeThenRead writes the deferred request, and reads the first bytes of the
// response. The read deadline has been set.
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

// pollStep is called by the runtime's poller: first to write, then whenever the
// connection may be readable. It reports whether it is done.
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
		return !t.wrote // the rest of a large head is written by the Writer
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

// ignoringEINTR repeats a system call that a signal interrupted.
func ignoringEINTR(call func(int, []byte) (int, error), fd int, buf []byte) (int, error) {
	for {
		n, err := call(fd, buf)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
