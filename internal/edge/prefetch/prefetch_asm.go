//go:build amd64 || arm64

package prefetch

import "unsafe"

//go:noescape
func forReading(p unsafe.Pointer)

//go:noescape
func forWriting(p unsafe.Pointer)
