//go:build !linux

package overload

// dropPages is not implemented here: only Linux has /proc/self/smaps.
func dropPages(extent) {}

// gatherPages is not implemented here either.
func gatherPages(extent) {}
