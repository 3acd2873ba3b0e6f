// Package supplychain tests scripts of releases that run other programs:
// govulncheck with a database of its own, as on a machine without a network, and
// the files of a release.
package supplychain
