//go:build !unix

package h1

import "syscall"

// turn is empty where there is no way to save a system call.
type turn struct{}

// Pair changes nothing here.
func (r *Reader) Pair(syscall.RawConn) {}

// Ask writes a request without a body.
func (r *Reader) Ask(w *Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// exchangeTurns reads the first of an answer.
func (r *Reader) exchangeTurns() error { return r.readOnce() }
