package migration

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// reachTimeout bounds the first request to another cluster. One that cannot be reached
// from here is tried once, and not for each Application.
const reachTimeout = 10 * time.Second

// destination is a cluster that Applications are for, with what their proofs share.
type destination struct {
	cluster *kube.Cluster
	server  string
	// inspector and kinds are shared, so that discovery is read once.
	inspector *inspect.Inspector
	kinds     *live.Kinds
	// owners are the Applications that list an object.
	owners map[tracking.Key][]tracking.App
	// marked are the objects of a kind in a namespace by the Application whose
	// mark they have.
	marked map[scope]map[tracking.App][]tracking.Key
	// reached and err are of the first request.
	reached bool
	err     error
}

// newDestination returns a cluster without Applications. All clusters have the health
// rules of Argo CD's settings.
func (a *assessment) newDestination(server string, cluster *kube.Cluster, kinds *live.Kinds) *destination {
	return &destination{
		cluster: cluster, server: server, kinds: kinds,
		inspector: &inspect.Inspector{Cluster: cluster, Manager: manager, Health: a.inspector.Health},
		owners:    map[tracking.Key][]tracking.App{}, marked: map[scope]map[tracking.App][]tracking.Key{},
	}
}

// connectOthers takes the Secrets of Argo CD for other clusters. It sends nothing.
func (a *assessment) connectOthers(secrets []corev1.Secret) {
	var all []*corev1.Secret
	for i := range secrets {
		all = append(all, &secrets[i])
	}
	// The report has refused Secrets already.
	registry := clusters.NewRegistry(slog.New(slog.DiscardHandler))
	registry.Update(all)
	a.connections = clusters.NewConnections(registry, manager)
}

// destinationOf returns the cluster that an Application is for. Others than that of Argo
// CD are opened by its own Secrets.
func (a *assessment) destinationOf(app *inspect.Application) (*destination, error) {
	wanted := project.Complete(app.Spec.Destination)
	if wanted.Server == project.LocalServer {
		return a.local, nil
	}
	if a.connections == nil {
		return nil, fmt.Errorf("the Secrets of clusters in the namespace %s were not read", a.Namespace)
	}
	found, err := a.connections.Find(wanted.Server, wanted.Name)
	if err != nil {
		return nil, fmt.Errorf("connect to its cluster with the Secret of Argo CD: %w", err)
	}
	if a.others[found.Server] == nil {
		a.others[found.Server] = a.newDestination(found.Server, found.Cluster, found.Kinds)
	}
	return a.others[found.Server], nil
}

// reach returns why the cluster cannot be reached, by the first request.
func (d *destination) reach(ctx context.Context) error {
	if d.reached {
		return d.err
	}
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := d.cluster.Client.Discovery().RESTClient().Get().AbsPath("/version").Do(limited).Error(); err != nil {
		d.err = fmt.Errorf("its cluster %s cannot be reached from here: %w", d.server, err)
	}
	d.reached = true
	return d.err
}
