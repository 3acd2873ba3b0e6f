// Package watch delivers the objects of a cluster, and then each change, as events
// to the goroutine that owns the Snapshot.
//
// A Watcher runs one reflector for each kind and namespace. It keeps the names
// and versions of the objects that it delivered and nothing else: the Snapshot is
// the only copy. Objects are trimmed to the fields that routes depend on. Of
// Secrets only the metadata is watched; the data is read by name for those that
// an Ingress needs, and dropped when none does. Custom kinds, which a cluster may
// not have, are watched once an object names one.
//
// It promises that events of one object come in order, that events missed while
// the API server was away are made up for, deletions too, and that an API server
// that is away changes nothing. A full queue blocks the reflectors, so memory is
// bounded by the size of the cluster.
//
// It requests nothing beyond its options: with namespaces set no request is for
// the whole cluster, and a kind that is disabled is never requested, so it needs
// no rights.
package watch
