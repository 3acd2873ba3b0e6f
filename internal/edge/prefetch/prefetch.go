// Package prefetch has the processor load memory before it is needed. With
// thousands of routes what a request needs of its own is in no near cache, and a
// plain read that comes early makes the request wait early: the instructions for
// it do not. Where there is nothing, nothing happens.
package prefetch

import "unsafe"

// ForReading loads the cache line that a value begins in.
func ForReading[T any](p *T) { forReading(unsafe.Pointer(p)) }

// ForWriting does the same for what is going to be changed, so that no other
// processor has it then.
func ForWriting[T any](p *T) { forWriting(unsafe.Pointer(p)) }
