// Package tree is the files of one revision, and how a render reads them.
//
// A [Store] has the files as they are stored: in Git's objects, in an unpacked
// chart, in a local folder. It follows no links. A [View] is one render's way
// to it: it follows links as long as they stay inside the repository, bounds
// what is read, and notes every question with its answer. These notes, [Reads],
// say later whether another revision would give the same answers; then nothing
// has to be rendered again.
//
// Paths are separated by slashes and start at the root of the repository; the
// root is "".
//
// It promises that nothing outside of the repository is ever read, whatever the
// links in it say, and that [Reads.Same] is exact: it is true if and only if
// every question that was asked has the same answer.
//
// It refuses, with a [Refusal] that names the path: absolute paths and links,
// paths and links that leave the repository, chains and loops of links, files
// that are too large or too many, submodules, devices, and pointers of Git LFS.
package tree
