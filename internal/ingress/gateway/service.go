package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// servicePrefix begins the names of the Services of Gateways and their EndpointSlices.
const servicePrefix = "slipway-"

const serviceLoadBalancer = string(corev1.ServiceTypeLoadBalancer)

// Service is the Service of a Gateway that leads to the Pods of the edge.
type Service struct {
	Type string
	// LoadBalancerIP is the address that the Gateway asks for; empty for none.
	LoadBalancerIP string
	Ports          []ServicePort
	// Endpoints are the ready Pods of the edge, all of one family of addresses.
	Endpoints []Endpoint
	// Current is set if the cluster has the Service and its EndpointSlice with these ports
	// and endpoints: they are written again when a tenant changed or deleted them.
	Current bool
}

// ServicePort is a port of such a Service.
type ServicePort struct {
	Port, Target uint16
	UDP          bool
}

// Endpoint is a Pod of the edge.
type Endpoint struct {
	Address, Node, Zone string
}

// Name returns the name of the port, which Service and EndpointSlice share.
func (p ServicePort) Name() string {
	return fmt.Sprintf("%s-%d", strings.ToLower(string(p.Protocol())), p.Port)
}

// Protocol returns the protocol of the port.
func (p ServicePort) Protocol() corev1.Protocol {
	if p.UDP {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// ServiceName returns the name of the Service of a Gateway, which has to be a label of
// DNS; names of Gateways can be longer, and have dots.
func ServiceName(gateway string) string {
	if name := servicePrefix + gateway; len(validation.IsDNS1035Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(gateway))
	return servicePrefix + hex.EncodeToString(sum[:8])
}

// DeploymentName returns the name of the Deployment of a Gateway, and of the Service with
// its Pods. Both are in the namespace of the edge, where Gateways of all namespaces have one.
func DeploymentName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return servicePrefix + "gateway-" + hex.EncodeToString(sum[:8])
}

// Service returns the Service that the Gateway should have; nil where it has an address
// of the pool.
func (g *Gateway) Service() *Service { return g.assignment.service }

// Held returns the number of addresses or target ports that the Gateway has.
func (g *Gateway) Held() int {
	switch {
	case g.assignment.Targets != nil:
		return len(strings.Fields(g.assignment.allocated)) // also those that are not in the status yet
	case g.assignment.Address.IsValid():
		return 1
	}
	return 0
}

// Starved reports whether the Gateway has no address or port because others have them.
func (g *Gateway) Starved() bool {
	return g.assignment.Reason == gatewayv1.GatewayReasonNoResources || g.assignment.Targets == nil && g.Waits()
}

// addService adds the Service with the assigned targets, and the addresses of the one that
// is there. Without an address the Gateway is not programmed.
func (a *Assignment) addService(view *snapshot.View, gateway *gatewayv1.Gateway, options resolve.GatewayOptions, requested netip.Addr) {
	pods := options.EdgeService
	if options.DeploymentNamespace != "" {
		pods = options.DeploymentNamespace + "/" + DeploymentName(gateway.Namespace, gateway.Name)
	}
	a.service = &Service{Type: options.ServiceType, Endpoints: edgeEndpoints(view, pods)}
	if options.DeploymentNamespace != "" && len(a.service.Endpoints) == 0 && a.Reason == "" {
		a.Reason, a.Message = gatewayv1.GatewayReasonPending, fmt.Sprintf("no Pod of the Deployment %s is ready", pods)
	}
	if requested.IsValid() {
		a.service.LoadBalancerIP = requested.String()
	}
	for _, id := range slices.SortedFunc(maps.Keys(a.Targets), route.ListenerID.Compare) {
		a.service.Ports = append(a.service.Ports, ServicePort{Port: id.Port, Target: a.Targets[id], UDP: id.UDP})
	}
	name := ServiceName(gateway.Name)
	live := view.Service(gateway.Namespace, name)
	a.service.Current = a.service.is(live) && slices.ContainsFunc(view.Slices(gateway.Namespace, name), a.service.leadsBy(name))
	a.published = publishedAddresses(live, options.ServiceType)
	if len(a.published) == 0 && a.Reason == "" {
		a.Reason = gatewayv1.GatewayReasonAddressNotAssigned
		a.Message = fmt.Sprintf("the Service %s of type %s has no address yet", name, options.ServiceType)
	}
}

// is reports whether a Service of the cluster has these ports.
func (s *Service) is(live *snapshot.ServiceFacts) bool {
	if live == nil || string(live.Spec.Type) != s.Type {
		return false
	}
	// The API server keeps the order in which they came.
	ports := slices.SortedFunc(slices.Values(live.Spec.Ports), func(a, b corev1.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return slices.EqualFunc(s.Ports, ports, func(p ServicePort, of corev1.ServicePort) bool {
		return of.Name == p.Name() && of.Port == int32(p.Port) && of.TargetPort.IntVal == int32(p.Target) && of.Protocol == p.Protocol()
	})
}

// leadsBy returns a function that reports whether an EndpointSlice is the one with that
// name, and has these ports and endpoints.
func (s *Service) leadsBy(name string) func(*snapshot.Slice) bool {
	return func(slice *snapshot.Slice) bool {
		ports := slices.EqualFunc(s.Ports, slice.Ports, func(p ServicePort, of discoveryv1.EndpointPort) bool {
			return or(of.Name, "") == p.Name() && or(of.Port, 0) == int32(p.Target) && or(of.Protocol, "") == p.Protocol()
		})
		return slice.Name == name && ports && slices.EqualFunc(s.Endpoints, slice.Endpoints, func(e Endpoint, of discoveryv1.Endpoint) bool {
			return slices.Equal(of.Addresses, []string{e.Address}) && or(of.Conditions.Ready, true)
		})
	}
}

// publishedAddresses returns the addresses of a Service: those of its load balancer, or the
// one in the cluster. A Service of another type, or with a selector, is not the one of a
// Gateway.
func publishedAddresses(service *snapshot.ServiceFacts, kind string) []gatewayv1.GatewayStatusAddress {
	if service == nil || string(service.Spec.Type) != kind || service.Spec.Selects {
		return nil
	}
	var published []gatewayv1.GatewayStatusAddress
	add := func(of gatewayv1.AddressType, value string) {
		if value != "" && value != corev1.ClusterIPNone {
			published = append(published, gatewayv1.GatewayStatusAddress{Type: &of, Value: value})
		}
	}
	if kind != serviceLoadBalancer {
		add(gatewayv1.IPAddressType, service.Spec.ClusterIP)
		return published
	}
	for _, at := range service.LoadBalancer {
		add(gatewayv1.IPAddressType, at.IP)
		add(gatewayv1.HostnameAddressType, at.Hostname)
	}
	return published
}

// edgeEndpoints returns the ready endpoints of the Service of the edge, sorted: those with
// IPv4, or else those with IPv6, because an EndpointSlice has one family.
func edgeEndpoints(view *snapshot.View, service string) []Endpoint {
	namespace, name, _ := strings.Cut(service, "/")
	found := map[discoveryv1.AddressType]map[Endpoint]bool{discoveryv1.AddressTypeIPv4: {}, discoveryv1.AddressTypeIPv6: {}}
	for _, slice := range view.Slices(namespace, name) {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready != nil && !*ready || found[slice.AddressType] == nil {
				continue
			}
			for _, address := range endpoint.Addresses {
				found[slice.AddressType][Endpoint{Address: address, Node: or(endpoint.NodeName, ""), Zone: or(endpoint.Zone, "")}] = true
			}
		}
	}
	of := found[discoveryv1.AddressTypeIPv4]
	if len(of) == 0 {
		of = found[discoveryv1.AddressTypeIPv6]
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b Endpoint) int { return strings.Compare(a.Address, b.Address) })
}
