// Package annotation says what the annotations of an Ingress and of a Service
// mean: Traefik's documented ones and our own. The tables of keys in it are the
// one declaration, from which parsing and the reference page follow.
//
// It promises that every annotation under the two prefixes is either taken as
// it is written or is a Fault that says what is wrong and what to do; one bad
// annotation does not hide another. It never panics, and what it reads is
// bounded. A Fault closes what the annotation is for, where serving without it
// would be wrong: each key says so, and Closed is the sum.
//
// A setting that has two spellings may be written in both, if they say the
// same. Filters apply in one fixed order, whatever the order of annotations:
// an object in Kubernetes has none.
//
// It refuses to look anything up: names are passed on as they are written.
package annotation
