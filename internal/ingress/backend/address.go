package backend

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// native reports whether requests go to the ClusterIP of the Service, where
// kube-proxy balances them.
func (b *builder) native() bool {
	if b.settings.NativeLB != nil {
		return *b.settings.NativeLB
	}
	return b.options.NativeByDefault
}

// serviceEndpoint returns the ClusterIP of the Service, in its first IP family.
func (b *builder) serviceEndpoint() ([]route.Endpoint, *refusal.Refusal) {
	addresses := b.service.Spec.ClusterIPs
	if len(addresses) == 0 {
		addresses = []string{b.service.Spec.ClusterIP}
	}
	address, err := netip.ParseAddr(addresses[0])
	if err != nil || !routable(address) {
		return nil, refusal.New(b.field(inNative), refusal.Invalid, "the Service has no address of its own, "+
			"and requests are to be sent to it: set slipway.dev/native-lb to false, or give the Service a cluster IP")
	}
	b.result.Endpoints = Endpoints{From: FromService, Ready: 1}
	return []route.Endpoint{{
		Address: netip.AddrPortFrom(address, uint16(b.port.Port)), State: route.EndpointReady,
	}}, nil
}

// nodeEndpoints returns the node port of every ready node.
func (b *builder) nodeEndpoints() ([]route.Endpoint, *refusal.Refusal) {
	fault := func(reason refusal.Reason, message string) ([]route.Endpoint, *refusal.Refusal) {
		return nil, &refusal.Refusal{Field: b.field(inNodePort), Reason: reason, Message: message}
	}
	kind, number := b.service.Spec.Type, b.port.NodePort
	switch {
	case b.options.NoClusterScope:
		return fault(refusal.NotAllowed, "nodes are not read: remove the annotation, or unset providers.kubernetesIngress.disableClusterScopeResources")
	case kind != corev1.ServiceTypeNodePort && kind != corev1.ServiceTypeLoadBalancer:
		return fault(refusal.Invalid, fmt.Sprintf("the Service is of type %s: make it a NodePort, or remove the annotation", cmp.Or(string(kind), "ClusterIP")))
	case number < 1 || number > 65535:
		return fault(refusal.Invalid, fmt.Sprintf("the port %d has no node port: give it one, or remove the annotation", b.port.Port))
	}
	serving := b.servingNodes()
	counts := Endpoints{From: FromNodes}
	var endpoints []route.Endpoint
	seen := map[netip.Addr]bool{}
	for _, node := range b.view.Nodes() {
		address, found := b.nodeAddress(node)
		if !node.Ready || !found || seen[address] || serving != nil && !serving[node.Name] {
			counts.NotReady++
			continue
		}
		seen[address] = true
		counts.Ready++
		endpoints = append(endpoints, route.Endpoint{
			Address: netip.AddrPortFrom(address, uint16(number)), Zone: zoneName(node.Zone), State: route.EndpointReady,
		})
	}
	slices.SortFunc(endpoints, func(a, b route.Endpoint) int { return a.Address.Compare(b.Address) })
	b.result.Endpoints = counts
	return endpoints, nil
}

// servingNodes returns the nodes that accept traffic at the node port; nil means
// all. With externalTrafficPolicy Local a node drops traffic unless it runs an
// endpoint itself.
func (b *builder) servingNodes() map[string]bool {
	if b.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	serving := map[string]bool{}
	for _, c := range b.candidates() {
		if c.readiness != out && c.node != "" {
			serving[c.node] = true
		}
	}
	return serving
}

// nodeAddress returns the internal address of a node, preferably in the Service's
// first IP family.
func (b *builder) nodeAddress(node *snapshot.NodeFacts) (netip.Addr, bool) {
	ipv6 := b.wantsIPv6()
	var other netip.Addr
	for _, address := range node.Internal {
		address = address.Unmap()
		switch {
		case !address.IsValid() || !routable(address):
		case address.Is6() == ipv6:
			return address, true
		case !other.IsValid():
			other = address
		}
	}
	return other, other.IsValid()
}
