//go:build !unix

package h1

import "syscall"

// writeAndWait is empty on systems without raw connections.
type writeAndWait struct{}

// UseRawConn changes nothing here.
func (r *Reader) UseRawConn(syscall.RawConn) {}

// DeferWrite writes a request without a body.
func (r *Reader) DeferWrite(w *Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// writeThenRead reads the first bytes of a response.
func (r *Reader) writeThenRead() error { return r.readOnce() }
