package config

import (
	"net"
	"slices"
	"strconv"
)

// EdgeTraffic is the server for the traffic queries of the runtime's agent. It
// is off by default.
type EdgeTraffic struct {
	Address    string `yaml:"address" description:"Where the agent of the runtime asks what is served and how much, for the console's page about traffic. Both sides prove that they have the secret of traffic.secretFile, by TLS; nobody else gets an answer. When empty, there is no such server."`
	SecretFile string `yaml:"secretFile" description:"File with a secret of at least 32 bytes that the edge and the agent share, such as a mounted Kubernetes Secret. It may come later than the edge: until then nobody gets in."`
}

// AgentTraffic configures how the agent finds the edges of its cluster and
// authenticates to them.
type AgentTraffic struct {
	Edges      []string `yaml:"edges" description:"Addresses of edges, as host:port, that are asked about traffic: a list in a file, commas between them elsewhere. When empty, they are the Pods of the agent's namespace with the labels app.kubernetes.io/part-of=slipway and app.kubernetes.io/component=edge."`
	Port       int      `yaml:"port" description:"Port at which such Pods are asked: that of the edge's option traffic.address."`
	Secret     string   `yaml:"secret" description:"Secret of the control namespace with what the agent and the edges share, under the key secret. It is made if it is not there."`
	SecretFile string   `yaml:"secretFile" description:"File with what the agent and the edges share, instead of a Secret."`
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

// agentTraffic checks the addresses of edges and the Secret that they share.
func (c *checker) agentTraffic(t *AgentTraffic) {
	for _, address := range t.Edges {
		host, port, err := net.SplitHostPort(address)
		number, errPort := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || errPort != nil || number == 0 {
			c.add("traffic.edges", "has %s: write it as host:port", quoted(address))
		}
	}
	// A repeated address would count the traffic of one edge twice.
	if len(slices.Compact(slices.Sorted(slices.Values(t.Edges)))) != len(t.Edges) {
		c.add("traffic.edges", "has an address twice: keep one")
	}
	c.within("traffic.port", t.Port, 1, 65535)
	if t.SecretFile == "" && !validSubdomain(t.Secret) {
		c.add("traffic.secret", "is %s, which is not the name of a Secret", quoted(t.Secret))
	}
}
