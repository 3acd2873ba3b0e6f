// Package tracking records which Application an object in the cluster belongs to.
//
// It reads and writes Argo CD's tracking annotation, so that objects of an
// existing installation are known at once, and beside it a label of our own:
// the API server filters watches by labels and not by annotations, so the label
// is what keeps memory proportional to what is managed.
//
// It promises that the annotation alone decides who owns an object, and only if
// it names the object that carries it. A copy of an object (the EndpointSlice
// that a controller makes of a Service, a manifest that a user pasted) carries
// an annotation that names something else, and has no owner. Only what has both
// marks was written by us: pruning calls [Tracker.Stamped].
//
// It refuses to guess: an annotation that does not parse, and the label
// app.kubernetes.io/instance, own nothing.
package tracking
