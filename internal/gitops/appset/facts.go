package appset

import (
	"context"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/project"
)

// Facts is the input of generators, for each project what it may read.
type Facts interface {
	generate.Facts
	// Fresh returns the same facts without cached refs.
	Fresh() Facts
	// For returns the facts that a project may read, with its credentials, for a
	// set of a namespace.
	For(limits *project.Project, namespace string) Facts
	// CommentPullRequest writes a comment with the credential of a generator.
	CommentPullRequest(ctx context.Context, generator *v1alpha1.PullRequestGenerator, comment PullRequestComment) error
}

// PullRequestComment is a comment on a pull request. There is one for a key.
type PullRequestComment struct {
	Number    int64
	Key, Text string
	// Known changes the comment of the key if there is one, and adds none.
	Known bool
}
