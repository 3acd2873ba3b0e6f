//go:build !amd64 && !arm64

package prefetch

import "unsafe"

func forReading(unsafe.Pointer) {}

func forWriting(unsafe.Pointer) {}
