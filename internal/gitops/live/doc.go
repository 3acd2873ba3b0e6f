// Package live knows what is in the cluster: which kinds there are, and the
// objects that Applications own.
//
// [Kinds] asks the API server by discovery, and again only when a kind is asked
// for that it does not know, or when it is told that something has changed.
//
// [Cache] watches the kinds that Applications use, and of these only what has
// the label tracking.Label, so memory follows what is managed and not the size
// of the cluster. It keeps each object as the JSON that the API server sent, and
// decodes it on demand: decoded, an object takes ten times as much.
//
// It promises that what the API server answered to a write of ours is visible
// at once and is not replaced by an older event, that events of one object are
// told in their order, and that an API server that is away changes nothing: what
// is known stays, and what was missed is made up for, deletions too.
//
// It depends on resourceVersions that are numbers and grow, which Kubernetes
// guarantees for its own kinds since 1.35. Where an aggregated API has others,
// the last thing heard counts.
//
// It refuses to follow what it has no right to: the error names the verbs and
// the resource. With namespaces given, nothing is asked for the whole cluster
// but kinds that have no namespace; where even these may not be read they are
// left out, so that such objects are compared by [Cache.Fetch] but not pruned.
package live
