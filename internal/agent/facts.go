package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
)

// The cluster that the agent is in, as Argo CD names it.
const (
	thisCluster = "in-cluster"
	thisServer  = "https://kubernetes.default.svc"
)

// clusterList is the clusters of the control namespace's Secrets. What opens
// them is not kept: objects go to this cluster only.
type clusterList struct {
	mu    sync.RWMutex
	known []appset.Cluster
}

func (c *clusterList) take(secrets []*corev1.Secret) {
	var known []appset.Cluster
	here := false
	for _, secret := range secrets {
		cluster := appset.Cluster{
			Name: strings.TrimSpace(string(secret.Data["name"])), Server: strings.TrimSpace(string(secret.Data["server"])),
			Project: strings.TrimSpace(string(secret.Data["project"])), Labels: secret.Labels, Annotations: secret.Annotations,
		}
		here = here || cluster.Server == thisServer
		known = append(known, cluster)
	}
	if !here {
		known = append(known, appset.Cluster{Name: thisCluster, Server: thisServer})
	}
	slices.SortFunc(known, func(x, y appset.Cluster) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Server, y.Server))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = known
}

// facts is what ApplicationSets are generated from.
type facts struct {
	clusters *clusterList
	sources  *source.Sources
}

// Clusters are those whose labels fit.
func (f facts) Clusters(_ context.Context, selector labels.Selector) ([]appset.Cluster, error) {
	f.clusters.mu.RLock()
	defer f.clusters.mu.RUnlock()
	var fitting []appset.Cluster
	for _, cluster := range f.clusters.known {
		if selector == nil || selector.Matches(labels.Set(cluster.Labels)) {
			fitting = append(fitting, cluster)
		}
	}
	return fitting, nil
}

// Tree is the files of a repository at a revision.
func (f facts) Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error) {
	found, err := f.sources.Resolve(ctx, v1alpha1.ApplicationSource{RepoURL: repoURL, TargetRevision: revision, Path: "."}, -1)
	if err != nil {
		return nil, "", err
	}
	return found.Store, found.Revision, nil
}
