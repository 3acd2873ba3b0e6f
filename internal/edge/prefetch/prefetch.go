// Package prefetch asks the processor for memory long before it is needed. With
// thousands of routes what a request needs of its own is in no near cache, and a
// plain read that comes early makes the request wait early: the instruction for it
// does not.
package prefetch

import "unsafe"

// ForWriting asks for the line of a cache that something begins in, in the way for
// what is going to be changed. Where there is nothing, nothing happens.
func ForWriting[T any](p *T) { forWriting(unsafe.Pointer(p)) }
