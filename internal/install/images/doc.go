// Package images says which images a chart uses, writes the values that take them
// from a private registry, and copies them there (R78). No container engine is
// needed.
//
// It promises that the list comes from the rendered manifests and not from a list
// that somebody keeps, that values are rendered once more before they are given out,
// and that a copy has all platforms of an image and the same digests. What a registry
// has already is not copied again, so that a copy that was interrupted goes on.
//
// It refuses to talk to a registry without TLS unless it is on this machine or
// somebody asked for it, and to run programs that a file of credentials names.
package images
