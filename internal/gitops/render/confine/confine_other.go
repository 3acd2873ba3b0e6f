//go:build !linux

package confine

func apply(Limits) []string { return []string{"limits of the kernel, which are there on Linux only"} }

func usedCPUSeconds() int64 { return 0 }
