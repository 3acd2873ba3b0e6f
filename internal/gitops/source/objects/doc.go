// Package objects keeps Git's objects in packs on the disk.
//
// A [Set] is the packs of one folder. It never changes: receiving a pack makes
// a new Set that has one more. So any number of goroutines read it without a
// lock, while another receives, and it stays readable when its folder is
// removed, for its files are open.
//
// Receiving streams to the disk and hashes every object on the way. Memory is
// needed for differences only, and for those it has a limit; large files that
// are stored whole need none. A pack may be thin: its differences may be to
// objects of the packs before it.
//
// It promises that what Read gives is what the id stands for: every object is
// hashed again when it is read. A folder that is damaged is [ErrCorrupt], never
// a wrong answer.
//
// It refuses, with a *[TooLarge], packs and objects beyond the limits. It runs
// no program, follows no link and knows no refs.
package objects
