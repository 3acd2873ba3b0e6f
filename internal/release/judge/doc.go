// Package judge compares two revisions that are served at the same time, by the counts
// of the edges, and decides whether the new one is worse.
//
//	guards     what counts as worse, and how often a good revision may fail
//	sample     the counts of a revision
//	slice      the requests between two looks, and the last of these slices
//	evidence   the sequential tests
//	message    the decision as text
//	state      the evidence as it is kept, for a judge that continues
//
// The caller gives the sums over all edges since the release began, about once a second,
// to [Judge.Observe]. The difference of two looks is a slice. Both revisions are compared
// within each slice, so whatever both have in common, such as a slow database, a slow
// neighbour or a changed share, is no evidence. The evidence of the slices is multiplied.
// It stays below a bound with a stated probability however often it is looked at, as long
// as the revisions are alike.
//
// The package is pure: it has no clock, no state outside of [Judge], and depends on sums
// only, so the number of edges does not matter. See decision 0067.
package judge
