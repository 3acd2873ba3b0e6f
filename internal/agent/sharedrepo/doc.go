// Package sharedrepo reads and writes the Shared Configuration Repository: the
// Git repository with the configuration of an account's runtimes.
//
//	location     its address: <repo>.git[/<path>][?ref=<branch>]
//	repository   its files and their changes, by package gitwrite
//	layout       which file has what: one for each item
//	controller   creates and seeds the repository, and applies the Application
//	             that syncs it
//	configure    the runtime as an Application of itself
//
// It promises that a change is on the branch completely or not at all, and that
// no change of another writer is lost: a push names the commit it is based on
// and never forces. When another writer was faster, the change is made again on
// the new commit. An empty repository, a missing branch and a missing path are
// created by the first change.
//
// It refuses paths that leave the location, symbolic links and submodules on
// the way to a file, repositories beyond its limits, and SSH hosts whose key is
// unknown. It runs no program. Credentials are never part of its errors.
package sharedrepo
