//go:build !amd64 && !arm64

package prefetch

import "unsafe"

func forWriting(unsafe.Pointer) {}
