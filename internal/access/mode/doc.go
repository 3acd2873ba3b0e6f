// Package mode knows how a runtime is reached: through its tunnel, by an Ingress,
// by an HTTPRoute, or through a service mesh. It reads settings and writes
// objects, and asks nobody: what it says depends on its arguments alone.
//
// It promises that a mode follows from the settings by one rule, that everything
// that is wrong is told at once with the keys that disagree and what to write
// instead, and that the objects of all modes lead the same three paths to the
// Service internal-router, so that the platform reaches a runtime the same way in
// each of them.
//
// It refuses to choose between settings that contradict each other.
package mode
