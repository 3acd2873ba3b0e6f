// Package images lists the images of a chart, writes the values that take them
// from a private registry, and copies them there (R78). No container engine is
// needed.
//
// It promises that the list comes from the rendered manifests and not from one
// that is maintained by hand, that values are rendered once more before they
// are returned, and that a copy has all platforms of an image and the same
// digests. Content that a registry has already is not copied again, so that a
// copy which was interrupted continues.
//
// It refuses to connect to a registry without TLS unless it is on this machine
// or the user chose so, and to run programs that a credentials file names.
package images
