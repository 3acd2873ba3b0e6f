//go:build !linux

package overload

// dropPages is for a list of mappings that only Linux has.
func dropPages(extent) {}

// gatherPages is for such a list, too.
func gatherPages(extent) {}
