package config_test

import (
	"testing"

	"slipway.dev/slipway/internal/config"
)

// TestValidateGateway: the options for Services of Gateways.
func TestValidateGateway(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(e *config.Edge, k *config.KubernetesIngress)
		want   string // one line for each finding; none when it is valid
	}{
		{"gateway Services", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{ServiceType: "LoadBalancer", TargetPorts: "1024-1024", EdgeService: "slipway/edge"}
		}, ""},
		{"gateway Services of the published one", func(e *config.Edge, k *config.KubernetesIngress) {
			k.IngressEndpoint.PublishedService = "slipway/edge"
			e.Providers.KubernetesGateway = &config.KubernetesGateway{ServiceType: "ClusterIP", TargetPorts: "20000-65535"}
		}, ""},
		{"gateway Services that cannot be", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{
				ServiceType: "ExternalName", TargetPorts: "1023-2000", EdgeService: "/edge", Addresses: []string{"192.0.2.1"}, TargetPortsPerNamespace: -1,
			}
		}, "providers.kubernetesGateway.targetPortsPerNamespace is negative: use 0 for no maximum\n" +
			`providers.kubernetesGateway.serviceType is "ExternalName": use one of ClusterIP, NodePort, LoadBalancer` + "\n" +
			"providers.kubernetesGateway.serviceType gives Gateways the addresses of Services: remove addresses\n" +
			`providers.kubernetesGateway.targetPorts is "1023-2000": use two ports above 1024, such as 20000-20999` + "\n" +
			`providers.kubernetesGateway.edgeService is "/edge": name the Service of the edge, as namespace/name`},
		{"gateway Deployments", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{
				ServiceType: "ClusterIP", TargetPorts: "20000-20999", EdgeService: "slipway/edge", Deployment: "slipway-edge", Gateway: "infra/public",
			}
		}, ""},
		{"gateway Deployments that cannot be", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{Deployment: "slipway-edge", Gateway: "public"}
		}, `providers.kubernetesGateway.gateway is "public": name a Gateway, as namespace/name` + "\n" +
			"providers.kubernetesGateway.deployment needs Services that lead to the Pods of each Gateway: set serviceType"},
		{"gateway target ports", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{ServiceType: "NodePort", TargetPorts: "20001-20000", EdgeService: "slipway/edge"}
		}, `providers.kubernetesGateway.targetPorts is "20001-20000": use two ports above 1024, such as 20000-20999`},
	} {
		t.Run(c.name, func(t *testing.T) {
			edge, got := defaults(), ""
			c.change(edge, edge.Providers.KubernetesIngress)
			if err := edge.Validate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
