// Package watch reads a cluster for the goroutine that owns the Snapshot: what
// is there, and then each change.
//
// A Watcher runs one reflector for each kind and namespace. It keeps the names
// and versions of what it has handed on and nothing else: the Snapshot is the
// only copy. Objects are trimmed to what routes are made of before they are
// handed on. Of Secrets only the metadata is followed; the data is read by name
// for those that something needs, and forgotten when nothing does. Objects of
// kinds that a cluster may not have are followed once something names one.
//
// It promises that events of one object come in their order, that what was
// missed while the API server was away is made up for, deletions too, and that
// an API server that is away changes nothing: what is known stays. A full queue
// holds the reflectors back, so memory is bounded by what the cluster has.
//
// It refuses to ask for more than it was told to: with namespaces given nothing
// is asked for the whole cluster, and a kind that is switched off is never
// requested, so rights for it are not needed.
package watch
