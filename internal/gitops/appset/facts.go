package appset

import (
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
}
