//go:build !linux

package overload

// DropTextPages is not implemented here: only Linux has /proc/self/smaps.
func DropTextPages() {}

// collapseHeap is not implemented here: only Linux has MADV_COLLAPSE.
func collapseHeap() {}
