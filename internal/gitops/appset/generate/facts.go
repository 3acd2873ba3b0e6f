package generate

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Facts is the input of generators beside the ApplicationSet.
type Facts interface {
	// Clusters returns the clusters of Argo CD's cluster Secrets whose labels
	// match, and the own cluster. That one has no labels unless it has a
	// Secret, and is left out if the selector requires any.
	Clusters(ctx context.Context, selector labels.Selector) ([]Cluster, error)
	// Tree returns the files of a repository at a revision, and the commit, if
	// the repository may be read.
	Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error)
	// Repositories lists the repositories of an owner that may be read.
	Repositories(ctx context.Context, generator *v1alpha1.SCMProviderGenerator) ([]Repository, error)
	// PullRequests lists the pull requests of a repository that may be read.
	PullRequests(ctx context.Context, generator *v1alpha1.PullRequestGenerator) ([]PullRequest, error)
	// Plugin returns the sets of parameters of a plugin. The name is that of the
	// ApplicationSet.
	Plugin(ctx context.Context, name string, generator *v1alpha1.PluginGenerator) ([]map[string]any, error)
	// Decisions returns the clusters that objects have chosen.
	Decisions(ctx context.Context, generator *v1alpha1.DuckTypeGenerator) ([]Decision, error)
}

// Cluster is a cluster that Applications can deploy to, without credentials.
type Cluster struct {
	Name    string
	Server  string
	Project string
	// Labels and Annotations are those of its Secret.
	Labels      map[string]string
	Annotations map[string]string
}
