//go:build !unix

package h1

import "syscall"

// turn is empty on systems without raw connections.
type turn struct{}

// Pair changes nothing here.
func (r *Reader) Pair(syscall.RawConn) {}

// Ask writes a request without a body.
func (r *Reader) Ask(w *Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// writeThenRead reads the first bytes of a response.
func (r *Reader) exchangeTurns() error { return r.readOnce() }
