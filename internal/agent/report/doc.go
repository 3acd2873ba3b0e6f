// Package report tells the platform what the Applications of a cluster are like.
//
//	Changed, Deleted   what a watch sees; they never wait
//	spool              a log on disk of what is still to be told
//	sender             numbered batches to the platform, one at a time
//	resync             everything there is, in a new stream
//
// It promises that what the platform has is what the cluster has, once both can
// talk: every change is told at least once, changes of one Application while the
// platform is away become one, and a gap is found by its number. What is sent is
// on disk before, with its number, so that a number never means two things. A
// spool that is full, torn or lost ends in a resync and never in silence.
//
// It refuses to tell secrets: annotations, manifests and values are not sent at
// all, and addresses and messages are cleaned.
package report
