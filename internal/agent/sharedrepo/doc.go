// Package sharedrepo is the Shared Configuration Repository: the Git repository
// in which the runtimes of an account keep what they run.
//
//	location    where it is: <repo>.git[/<path>][?ref=<branch>]
//	snapshot    the newest commit of its branch, fetched without history
//	files       what a change sees of it, below the path of the location
//	push        one commit, sent with the commit that the branch must still be at
//	layout      which file has what: one for each item
//	home        the repository of this runtime: made, seeded, and followed by an
//	            Application in the cluster
//	configure   the runtime as an Application of itself
//
// It promises that a change is on the branch, completely, or not at all, and
// that no change of another writer is lost: a push names the commit that it is
// based on and never forces. When somebody else was faster, the change is made
// again on what is there now. An empty repository, a branch that does not exist
// and a path that does not exist are made by the first change.
//
// It refuses paths that leave the location, links and submodules on the way to
// a file, repositories beyond its limits, and SSH hosts whose key is not known.
// It runs no program. Credentials never get into its errors.
package sharedrepo
