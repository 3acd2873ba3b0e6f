package clusters

import (
	"fmt"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// Connections are clients for the clusters of a Book, made when one is asked for.
// Every replica has them: to look at a cluster needs no leadership. It is safe for
// concurrent use.
type Connections struct {
	book    *Book
	version string

	mu   sync.Mutex
	made map[string]*Connection // by address
}

// Connection is the clients for one cluster.
type Connection struct {
	Server, Name string
	Cluster      *kube.Cluster
	Kinds        *live.Kinds
	Applier      *apply.Applier

	entry *Entry
}

// NewConnections makes none yet.
func NewConnections(book *Book, version string) *Connections {
	return &Connections{book: book, version: version, made: map[string]*Connection{}}
}

// Find is the clients for the cluster with an address, or else with a name.
func (c *Connections) Find(server, name string) (*Connection, error) {
	server = strings.TrimSuffix(server, "/")
	if server != "" {
		name = ""
	}
	entry := c.book.find(name, server)
	if entry == nil {
		return nil, fmt.Errorf("there is no cluster %s%s", server, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.made[entry.Server]
	if known != nil && known.entry.sameConnection(entry) {
		return known, nil
	}
	if known != nil {
		known.Cluster.Close()
		delete(c.made, entry.Server)
	}
	token := func() secret.Text {
		if now := c.book.find("", entry.Server); now != nil {
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
		Server: entry.Server, Name: entry.Name, Cluster: cluster, Kinds: kinds, Applier: apply.New(cluster, kinds), entry: entry,
	}
	c.made[entry.Server] = made
	return made, nil
}

// Close drops the idle connections.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.made {
		one.Cluster.Close()
	}
}
