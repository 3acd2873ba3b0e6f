//go:build unix

package h1

import (
	"errors"
	"os"
	"syscall"
)

// directWrite writes to a socket without a deadline for as long as the socket takes
// the bytes at once, which it nearly always does. A deadline is a timer, and setting
// one costs a short connection as much as parsing its request.
type directWrite struct {
	raw  syscall.RawConn // nil where it is not supported
	step func(fd uintptr) bool

	out    []byte // what is left to write
	tried  bool   // the socket was written to
	armed  bool   // the deadline of this write is set
	failed error
}

// UseRawConn lets writes of one piece do without a deadline until they have to wait. raw is
// that of the Writer's TCP connection.
func (w *Writer) UseRawConn(raw syscall.RawConn) {
	w.direct.raw = raw
	if w.direct.step == nil {
		w.direct.step = w.writeStep // made once, so that a connection allocates nothing
	}
}

// unbound is what is kept for the next connection.
func (d *directWrite) unbound() directWrite { return directWrite{step: d.step} }

func (d *directWrite) usable() bool { return d.raw != nil }

// writeDirect writes b. The deadline of an earlier write may have passed, which ends
// the first try before it began.
func (w *Writer) writeDirect(b []byte) error {
	d := &w.direct
	d.out, d.tried, d.armed, d.failed = b, false, false, nil
	err := d.raw.Write(d.step)
	if !d.tried && errors.Is(err, os.ErrDeadlineExceeded) {
		if err = w.arm(); err == nil {
			d.armed = true
			err = d.raw.Write(d.step)
		}
	}
	d.out = nil
	if err == nil {
		err = d.failed
	}
	return err
}

// writeStep is called by the runtime's poller: at once, and then whenever the socket
// may have room. It reports whether it is done. A write that has to wait gets its
// deadline before it does.
func (w *Writer) writeStep(fd uintptr) bool {
	d := &w.direct
	d.tried = true
	for len(d.out) > 0 {
		n, err := ignoringEINTR(syscall.Write, int(fd), d.out)
		if err == syscall.EAGAIN {
			break
		}
		if err != nil {
			d.failed = os.NewSyscallError("write", err)
			return true
		}
		d.out = d.out[n:]
	}
	if len(d.out) > 0 && !d.armed {
		d.armed = true
		d.failed = w.arm()
	}
	return len(d.out) == 0 || d.failed != nil
}
