package agent

import (
	"cmp"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/agent/traffic"
)

// newTraffic returns the service that reads traffic from the edges. Every
// replica has one, because the platform may call any of them.
func (r *platformRuntime) newTraffic(proxy *appproxy.Service) *traffic.Service {
	options, edges := r.agent.options, r.runtimeOptions.Edges
	// The file wins: it is set where the agent may not read the Secret.
	var shared traffic.Secret = traffic.ClusterSecret{
		Cluster: options.Cluster, Namespace: options.ControlNamespace, Name: edges.Secret, Log: r.log,
	}
	if edges.SecretFile != "" {
		shared = traffic.SecretFile(edges.SecretFile)
	}
	return traffic.New(traffic.Options{
		Cluster: options.Cluster, Namespace: cmp.Or(options.Cluster.Namespace, options.ControlNamespace), Edges: edges.Addresses, Port: edges.Port,
		Secret: shared, Applications: r.applicationsOf, Namespaces: r.namespaces(), Commit: proxy.Commit, Log: r.log,
	})
}
