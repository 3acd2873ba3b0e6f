package appset

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/internal/gitops/tree"
)

// Facts is what generators ask about the world.
type Facts interface {
	// Clusters are those of Argo CD's cluster Secrets whose labels fit, and the
	// own cluster. That one has no labels unless there is a Secret for it, and is
	// left out if the selector asks for any.
	Clusters(ctx context.Context, selector labels.Selector) ([]Cluster, error)
	// Tree is the files of a repository at a revision, and the commit.
	Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error)
	// Fresh are the same facts, with no older answer about a repository believed.
	Fresh() Facts
}

// Cluster is a cluster that Applications can go to. It has no credentials.
type Cluster struct {
	Name    string
	Server  string
	Project string
	// Labels and Annotations are those of its Secret.
	Labels      map[string]string
	Annotations map[string]string
}
