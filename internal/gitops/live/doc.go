// Package live caches the state of a cluster: the kinds that it serves, and the
// objects that Applications own.
//
// [Kinds] reads discovery, and again only when a kind is missing or after
// [Kinds.Invalidate].
//
// [Cache] watches the kinds that Applications use, and of these only objects
// with the label tracking.Label, so memory follows what is managed and not the
// size of the cluster. It keeps each object as the JSON that the API server
// sent, compressed, and decodes it on demand: decoded, an object takes twenty
// times as much.
//
// The response to our own write is visible at once and is not replaced by an
// older event. Events of one object are reported in order. While the API server
// is away the cache stays as it is; what was missed is made up for, deletions
// included.
//
// It depends on resourceVersions that are growing numbers, which Kubernetes
// guarantees for its own kinds since 1.35. For an aggregated API with other
// versions the last event counts.
//
// It does not watch what it has no right to: the error names the verbs and the
// resource. With namespaces given, only cluster-scoped kinds are read for the
// whole cluster; where even these may not be read they are left out, so that
// such objects are compared by [Cache.Fetch] but not pruned.
package live
