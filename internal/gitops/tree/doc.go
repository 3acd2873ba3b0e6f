// Package tree is the files of one revision, and how a render reads them.
//
// A [Store] has the files as they are stored: in Git's objects, in an unpacked
// chart, in a local folder. It follows no links. A [View] is the access of one
// render: it follows links that stay inside the repository, bounds what is
// read, and records every query with its result. These records, [Reads], show
// later whether another revision gives the same results; then nothing has to be
// rendered again.
//
// Paths are separated by slashes and start at the root of the repository; the
// root is "".
//
// Nothing outside of the repository is ever read. [Reads.Same] is exact: it is
// true if and only if every recorded query has the same result.
//
// It refuses, with a [refusal.Refusal] that names the path: absolute paths and
// links, paths and links that leave the repository, chains and loops of links,
// files that are too large or too many, submodules, devices, and pointers of Git
// LFS.
package tree
