package config

import (
	"net"
	"slices"
	"strconv"
)

// EdgeTraffic is the server for the traffic queries of the runtime's agent. It
// is off by default.
type EdgeTraffic struct {
	Address    string `yaml:"address" description:"Address at which the runtime's agent reads routes and request counters, for the console's traffic page. Both sides use TLS to prove that they have the secret of traffic.secretFile; other clients are refused. When empty, the server is disabled."`
	SecretFile string `yaml:"secretFile" description:"File with a secret of at least 32 bytes that the edge and the agent share, such as a mounted Kubernetes Secret. It may be created after the edge starts: until then all clients are refused."`
}

// AgentTraffic configures how the agent finds the edges of its cluster and
// authenticates to them.
type AgentTraffic struct {
	Edges      []string `yaml:"edges" description:"Addresses of the edges, as host:port, whose traffic the agent reads: a list in a file, commas between them elsewhere. When empty, they are the Pods of the agent's namespace with the labels app.kubernetes.io/part-of=slipway and app.kubernetes.io/component=edge."`
	Port       int      `yaml:"port" description:"Port of such Pods: the port of the edge's option traffic.address."`
	Secret     string   `yaml:"secret" description:"Secret of the control namespace with the secret that the agent and the edges share, under the key secret. It is created if it does not exist."`
	SecretFile string   `yaml:"secretFile" description:"File with the secret that the agent and the edges share, instead of a Secret."`
}

// DefaultTrafficPort is the port at which agents query edges.
const DefaultTrafficPort = 8093

// DefaultTrafficSecret is the Secret that agents and edges share.
const DefaultTrafficSecret = "slipway-edge-traffic"

// edgeTraffic checks the server for the agent. It needs a secret: without one
// the server could authenticate no agent.
func (c *checker) edgeTraffic(t *EdgeTraffic) {
	if t.Address == "" {
		return
	}
	c.address("traffic.address", t.Address)
	if t.SecretFile == "" {
		c.add("traffic.secretFile", "is missing, and traffic.address is set: name the file with the secret that the agent has too")
	}
}

// sharedLimits checks the exchange of limits between replicas.
func (c *checker) sharedLimits(s *Shared) {
	if s.Limits.Address == "" {
		if len(s.Limits.Peers) > 0 {
			c.add("shared.limits.peers", "is set, and shared.limits.address is missing: name the address at which the others connect")
		}
		return
	}
	c.address("shared.limits.address", s.Limits.Address)
	if s.SecretFile == "" {
		c.add("shared.secretFile", "is missing, and shared.limits.address is set: name the file with the secret that all replicas have")
	}
	if len(s.Limits.Peers) == 0 {
		c.add("shared.limits.peers", "is missing, and shared.limits.address is set: name the replicas, as host:port")
	}
	c.hostPorts("shared.limits.peers", s.Limits.Peers)
}

// hostPorts checks a list of addresses to connect to.
func (c *checker) hostPorts(option string, list []string) {
	for _, address := range list {
		host, port, err := net.SplitHostPort(address)
		number, errPort := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || errPort != nil || number == 0 {
			c.add(option, "has %s: write it as host:port", quoted(address))
		}
	}
}

// agentTraffic checks the addresses of edges and the Secret that they share.
func (c *checker) agentTraffic(t *AgentTraffic) {
	c.hostPorts("traffic.edges", t.Edges)
	// A repeated address would count the traffic of one edge twice.
	if len(slices.Compact(slices.Sorted(slices.Values(t.Edges)))) != len(t.Edges) {
		c.add("traffic.edges", "has an address twice: keep one")
	}
	c.within("traffic.port", t.Port, 1, 65535)
	if t.SecretFile == "" && !validSubdomain(t.Secret) {
		c.add("traffic.secret", "is %s, which is not the name of a Secret", quoted(t.Secret))
	}
}
