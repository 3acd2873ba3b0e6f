// Package gitsource is the Git Sources of a runtime: repositories with
// Applications, each followed by an Application that is a file of its own in the
// Shared Configuration Repository (R72). It implements GitSourceService.
//
// It promises that what is answered as made is committed, with the user who asked
// as the author, and that deleting a Git Source leaves its applications in the
// cluster. Fields that people added to its file by hand survive an edit.
//
// It refuses names that are taken or cannot be a Kubernetes name, addresses with
// credentials in them, SSH addresses without an SSH key of the runtime (R67), and
// repositories that the runtime cannot read.
package gitsource
