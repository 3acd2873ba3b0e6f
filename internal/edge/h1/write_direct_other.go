//go:build !unix

package h1

import "syscall"

// directWrite is empty on systems without raw connections.
type directWrite struct{}

// UseRawConn changes nothing here.
func (w *Writer) UseRawConn(syscall.RawConn) {}

func (d *directWrite) unbound() directWrite { return *d }

func (d *directWrite) usable() bool { return false }

func (w *Writer) writeDirect([]byte) error { panic("h1: no raw connection") }
