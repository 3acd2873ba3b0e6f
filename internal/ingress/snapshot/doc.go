// Package snapshot holds the objects of a cluster that routes depend on, as they
// were last seen.
//
// A Snapshot is owned by one goroutine, which puts objects into it and resolves
// what depends on them. Put returns the references that changed for readers, and
// none for a change that no route depends on: a new status or label costs no more
// than a comparison. Readers use a View, which records what they read. So the
// units to resolve after a change follow from what they read, and no list of
// dependencies is maintained by hand.
//
// It compares and stores objects without interpreting them: which Ingress is
// ours, and what it requests, is for package resolve.
package snapshot
