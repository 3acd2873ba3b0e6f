package agent

import (
	"cmp"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/agent/traffic"
)

// newTraffic returns the service that reads traffic from the edges. Every
// replica has one, because the platform may call any of them.
func (r *platformRuntime) newTraffic(proxy *appproxy.Service) *traffic.Service {
	options := r.trafficOptions()
	options.Applications, options.Namespaces, options.Commit = r.applicationsOf, r.namespaces(), proxy.Commit
	return traffic.New(options)
}

// trafficOptions are those of all that read from the edges.
func (a *agent) trafficOptions() traffic.Options {
	options, edges := a.options, a.options.Edges
	// The file wins: it is set where the agent may not read the Secret.
	var shared traffic.Secret = traffic.ClusterSecret{
		Cluster: options.Cluster, Namespace: options.ControlNamespace, Name: edges.Secret, Log: a.log,
	}
	if edges.SecretFile != "" {
		shared = traffic.SecretFile(edges.SecretFile)
	}
	return traffic.Options{
		Cluster: options.Cluster, Namespace: cmp.Or(options.Cluster.Namespace, options.ControlNamespace), Edges: edges.Addresses, Port: edges.Port,
		Secret: shared, Log: a.log,
	}
}
