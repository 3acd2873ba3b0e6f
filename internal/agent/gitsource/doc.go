// Package gitsource manages the Git Sources of a runtime: repositories with
// Applications. An Application syncs each of them; it is one file in the Shared
// Configuration Repository (R72). The package implements GitSourceService.
//
// It promises that a Git Source that was reported as created is committed, with
// the user who requested it as the author, pushed with that user's own token if
// there is one, and that deleting one leaves its Applications in the cluster.
// Fields that people added to its file by hand survive an edit.
//
// A Git Source is an Application of its project: who may create, update or
// delete Applications there may do it with Git Sources, within what the project
// allows.
//
// It refuses names that are taken or invalid in Kubernetes, addresses with
// credentials in them, SSH addresses without an SSH key of the runtime (R67),
// and repositories that the runtime cannot read.
package gitsource
