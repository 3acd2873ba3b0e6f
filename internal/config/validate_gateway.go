package config

import (
	"slices"
	"strconv"
	"strings"
)

// minTarget is the first port that a process without privileges can listen on.
const minTarget = 1024

// kubernetesGateway checks the options of Gateway API.
func (c *checker) kubernetesGateway(g *KubernetesGateway, ingress *KubernetesIngress) {
	const at = "providers.kubernetesGateway."
	c.networks(at+"addresses", g.Addresses)
	if g.AddressesPerNamespace < 0 {
		c.add(at+"addressesPerNamespace", "is negative: use 0 for no limit")
	}
	if g.TargetPortsPerNamespace < 0 {
		c.add(at+"targetPortsPerNamespace", "is negative: use 0 for no maximum")
	}
	if namespace, name, found := strings.Cut(g.Gateway, "/"); g.Gateway != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		c.add(at+"gateway", "is %q: name a Gateway, as namespace/name", g.Gateway)
	}
	if g.ServiceType == "" {
		if g.Deployment != "" {
			c.add(at+"deployment", "needs Services that lead to the Pods of each Gateway: set serviceType")
		}
		return
	}
	if types := []string{"ClusterIP", "NodePort", "LoadBalancer"}; !slices.Contains(types, g.ServiceType) {
		c.add(at+"serviceType", "is %q: use one of %s", g.ServiceType, strings.Join(types, ", "))
	}
	if len(g.Addresses) > 0 {
		c.add(at+"serviceType", "gives Gateways the addresses of Services: remove addresses")
	}
	if first, _ := g.TargetRange(); first < minTarget {
		c.add(at+"targetPorts", "is %q: use two ports above %d, such as 20000-20999", g.TargetPorts, minTarget)
	}
	service := g.EdgeService
	if service == "" && ingress != nil {
		service = ingress.IngressEndpoint.PublishedService
	}
	if namespace, name, found := strings.Cut(service, "/"); !found || namespace == "" || name == "" {
		c.add(at+"edgeService", "is %q: name the Service of the edge, as namespace/name", service)
	}
}

// TargetRange returns the first and the last of the target ports; 0 if they cannot be read.
func (g *KubernetesGateway) TargetRange() (first, last uint16) {
	from, to, _ := strings.Cut(g.TargetPorts, "-")
	low, err := strconv.ParseUint(from, 10, 16)
	high, problem := strconv.ParseUint(to, 10, 16)
	if err != nil || problem != nil || low == 0 || low > high {
		return 0, 0
	}
	return uint16(low), uint16(high)
}
