//go:build !unix

package listener

// readable is not implemented here: the wait is that of the next read.
func readable(uintptr) (ready, ended bool) { return true, false }
