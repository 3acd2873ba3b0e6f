// Package snapshot holds what is known of a cluster: the objects that routes
// are made of, as they were last seen.
//
// A Snapshot belongs to one goroutine, which puts objects into it and resolves
// what depends on them. Put says what changed for readers, and nothing when
// nothing did that a route is made of: a status or a label that changes costs
// no more than the comparison. Whoever resolves something reads through a View,
// which remembers what was read. So what must be resolved again after a change
// follows from what was read, and is never written down by hand.
//
// It knows the forms of objects and nothing of their meaning: which Ingress is
// ours, and what it asks for, is for package resolve.
package snapshot
