//go:build !linux

package overload

// dropTextPages is not implemented here: only Linux has /proc/self/smaps.
func dropTextPages() {}

// collapseHeap is not implemented here: only Linux has MADV_COLLAPSE.
func collapseHeap() {}
