// Package report sends the state of a cluster's Applications to the platform.
//
//	Changed, Deleted   events of a watch; they never block
//	spool              a log on disk of events that are not sent yet
//	sender             numbered batches, one at a time
//	resync             the state of all Applications, in a new stream
//
// It promises that the platform's state equals the cluster's once both can
// communicate: every change is sent at least once, changes of one Application
// while the platform is away are merged, and a gap is found by its number. An
// event is on disk with its number before it is sent, so that a number never
// has two meanings. A spool that is full, torn or lost leads to a resync and
// never to silence.
//
// It refuses to send secrets: annotations, manifests and values are not sent at
// all, and addresses and messages are redacted.
package report
