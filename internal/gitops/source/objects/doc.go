// Package objects stores Git's objects in packs on the disk.
//
// A [Set] is the packs of one folder. It is immutable: receiving a pack returns
// a new Set with one more. So any number of goroutines read it without a lock
// while another receives, and it stays readable when its folder is removed,
// because its files are open.
//
// Receiving streams to the disk and hashes every object on the way. Only deltas
// need memory, and that has a limit; large files that are stored whole need
// none. A pack may be thin: its deltas may have bases in the packs before it.
//
// Read verifies the hash of every object again, so that a damaged folder is
// [ErrCorrupt] and never a wrong result.
//
// It refuses, with a *[TooLarge], packs and objects above the limits. It runs
// no program, follows no link and has no refs.
package objects
