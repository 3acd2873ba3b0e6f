package overload

import "runtime/debug"

// ReleaseStartupMemory returns memory to the system that only the start needs.
// It is called once, when the first routes are live. Each step is independent of
// the others and does nothing where the system does not support it.
func ReleaseStartupMemory() {
	debug.FreeOSMemory()

	DropTextPages()

	collapseHeap()
}
