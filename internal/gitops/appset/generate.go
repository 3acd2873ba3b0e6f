// Package appset makes Applications from ApplicationSets.
package appset

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Facts is what generators ask about the world.
type Facts interface {
	// Clusters are those whose labels fit.
	Clusters(ctx context.Context, selector labels.Selector) ([]Cluster, error)
	// Tree is the files of a repository at a revision, and the commit.
	Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error)
}

// Cluster is a cluster that Applications can go to.
type Cluster struct {
	Name        string
	Server      string
	Project     string
	Labels      map[string]string
	Annotations map[string]string
}

// Generate makes the Applications of a set.
func Generate(ctx context.Context, set *v1alpha1.ApplicationSet, facts Facts) ([]*v1alpha1.Application, error) {
	return nil, nil
}
