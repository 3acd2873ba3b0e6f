package appset

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/outbound"
)

// clusterSecrets selects Argo CD's cluster Secrets.
const clusterSecrets = "argocd.argoproj.io/secret-type=cluster"

// Resolver resolves revisions and their files, as [source.Sources] does.
type Resolver interface {
	Resolve(ctx context.Context, of project.Admitted, maxAge time.Duration) (*source.Resolved, error)
}

// ClusterFacts implements Facts for a cluster and its repositories.
type ClusterFacts struct {
	Cluster *kube.Cluster
	// Namespace has the cluster Secrets: the control namespace.
	Namespace string
	Sources   Resolver
	// MaxAge is how old the cached refs of a repository may be.
	MaxAge time.Duration

	// Outbound decides which addresses of Git hosts and plugins are connected to;
	// nil allows all.
	Outbound *outbound.Policy
	// Pauses and Responses may be nil.
	Pauses    *Pauses
	Responses *gitprovider.Responses
	// SetNamespace has the Secrets of a set: its own namespace.
	SetNamespace string

	// limits admits the repositories; without it none can be read.
	limits *project.Project
}

// Clusters reads the cluster Secrets. Of their data only name, server and
// project are used, so that credentials cannot become parameters. The Secrets
// are read for each generation and never cached. The own cluster is added
// unless a Secret describes it, as in Argo CD.
func (f *ClusterFacts) Clusters(ctx context.Context, selector labels.Selector) ([]generate.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := f.Cluster.Client.CoreV1().Secrets(f.Namespace).List(ctx, metav1.ListOptions{LabelSelector: clusterSecrets})
	if err != nil {
		return nil, fmt.Errorf("cluster Secrets of namespace %s: %w", f.Namespace, err)
	}
	var clusters []generate.Cluster
	local := true
	for i := range list.Items {
		secret := &list.Items[i]
		server := string(secret.Data["server"])
		// All Secrets count here, also those that the selector drops: a Secret
		// of the own cluster always replaces the implicit entry.
		local = local && server != project.LocalServer
		if !selector.Matches(labels.Set(secret.Labels)) {
			continue
		}
		clusters = append(clusters, generate.Cluster{
			Name: string(secret.Data["name"]), Server: server, Project: string(secret.Data["project"]),
			Labels: secret.Labels, Annotations: secret.Annotations,
		})
	}
	if local && selector.Empty() {
		clusters = append(clusters, generate.Cluster{Name: project.LocalName, Server: project.LocalServer})
	}
	return clusters, nil
}

// Fresh returns Facts that do not use cached refs.
func (f *ClusterFacts) Fresh() Facts {
	fresh := *f
	fresh.MaxAge = 0
	return &fresh
}

// For returns Facts with the sources and credentials of a project, for a set of
// a namespace.
func (f *ClusterFacts) For(limits *project.Project, namespace string) Facts {
	limited := *f
	limited.limits, limited.SetNamespace = limits, namespace
	return &limited
}

// Tree returns the files of a Git repository.
func (f *ClusterFacts) Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error) {
	if f.limits == nil {
		return nil, "", errors.New("no project allows the repository")
	}
	admitted, err := f.limits.Admit(v1alpha1.ApplicationSource{RepoURL: repoURL, TargetRevision: revision, Path: "."})
	if err != nil {
		return nil, "", err
	}
	resolved, err := f.Sources.Resolve(ctx, admitted, f.MaxAge)
	if err != nil {
		return nil, "", err
	}
	return resolved.Store, resolved.Revision, nil
}
