package clusters

import (
	"fmt"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// Connections has clients for the clusters of a Registry, created on first use.
// Every replica has them, because reading from a cluster needs no leadership.
// It is safe for concurrent use.
type Connections struct {
	registry *Registry
	version  string

	mu   sync.Mutex
	open map[string]*Connection // by address
}

// Connection has the clients of one cluster.
type Connection struct {
	Server, Name string
	Cluster      *kube.Cluster
	Kinds        *live.Kinds
	Applier      *apply.Applier
	Scope        project.ClusterScope

	spec *ClusterSpec
}

// NewConnections returns Connections without clients.
func NewConnections(book *Registry, version string) *Connections {
	return &Connections{registry: book, version: version, open: map[string]*Connection{}}
}

// Find returns the clients for the cluster with an address, or else with a
// name. Clients are replaced when the Secret changes more than the token, which
// is read for each request.
func (c *Connections) Find(server, name string) (*Connection, error) {
	server = strings.TrimSuffix(server, "/")
	if server != "" {
		name = ""
	}
	entry := c.registry.find(name, server)
	if entry == nil {
		return nil, fmt.Errorf("there is no cluster %s%s", server, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[entry.Server]
	if known != nil && known.spec.sameConnection(entry) {
		return known, nil
	}
	if known != nil {
		known.Cluster.Close()
		delete(c.open, entry.Server)
	}
	// The token is read for each request, so that a renewed one needs no new
	// client.
	token := func() secret.Text {
		if now := c.registry.find("", entry.Server); now != nil {
			return now.token()
		}
		return secret.Text{}
	}
	cluster, err := kube.ConnectRemote(entry.remote(token), kube.Version(c.version))
	if err != nil {
		return nil, err
	}
	kinds := live.NewKinds(cluster)
	made := &Connection{
		Server: entry.Server, Name: entry.Name, Cluster: cluster, Kinds: kinds, Applier: apply.New(cluster, kinds), Scope: entry.Scope(), spec: entry,
	}
	c.open[entry.Server] = made
	return made, nil
}

// Close closes idle connections.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		one.Cluster.Close()
	}
}
