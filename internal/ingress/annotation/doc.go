// Package annotation parses the annotations of an Ingress and of a Service:
// Traefik's documented ones and our own. The tables of keys in it are the only
// declaration; the parser and the reference page are both derived from them.
//
// It promises that every annotation under the two prefixes either takes effect
// as written or is a Refusal that describes the problem and its fix; one bad
// annotation does not hide another. It never panics, and its input is bounded.
// A Refusal closes the object where serving without the annotation would be
// wrong: each key has a flag for that, and Closed is the result.
//
// A setting with two spellings may be written in both if the values agree.
// Filters apply in one fixed order, independent of the order of annotations,
// because annotations of a Kubernetes object have none.
//
// It resolves no references: names are passed on as they are written.
package annotation
