// Package gitwrite commits changes of files to a branch of a Git repository and
// pushes them, without a checkout and without running a program.
//
//	snapshot     the newest commit of the branch, fetched without history
//	files        the files that a change sees
//	pack         the objects of one commit, sent with the commit that the branch
//	             must still be at
//	history      finds a commit of before again
//	pool         keeps repositories open
//
// It promises that a change is on the branch completely or not at all, and that
// no change of another writer is lost: a push names the commit it is based on
// and never forces. When another writer was faster, the change is made again on
// the new commit. A change that changes nothing makes no commit. So a writer that
// is killed and starts again makes each change once.
//
// It refuses paths that leave the repository, symbolic links and submodules on
// the way to a file, repositories beyond its limits, and SSH hosts whose key is
// unknown. Credentials are never part of its errors.
package gitwrite
