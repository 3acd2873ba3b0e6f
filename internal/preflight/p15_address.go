package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/access/mode"
)

// checkExternalAddress is P15: the Service of the controller has an address
// that is reachable from outside (R83). ALB creates a load balancer per
// Ingress, so its address is in the Ingress status after the installation.
func checkExternalAddress(ctx context.Context, in *CheckContext, out *Report) {
	if in.requestedMode() == mode.HTTPRoute {
		in.gatewayAddresses(ctx, out)
		return
	}
	view := in.needsController(out)
	if view == nil {
		return
	}
	// ALB creates the load balancer for the Ingress, which does not exist
	// yet.
	if view.controller.ID == ALB {
		in.albAddress(ctx, out)
		return
	}
	if len(view.services) == 0 {
		in.nodeAddress(view, out)
		return
	}
	for _, service := range view.services {
		in.evaluateService(view, service, out)
	}
}

// evaluateService checks the addresses of one Service.
func (in *CheckContext) evaluateService(view *controllerView, service corev1.Service, out *Report) {
	subject := named("Service", service.Namespace, service.Name)
	out.inspect("%s, type %s", subject, service.Spec.Type)
	// Every address is checked: a Service may have an internal and an
	// external one.
	addresses := serviceAddresses(service)
	for _, address := range addresses {
		out.inspect("its address is %s", address)
		evaluateAddress(subject, address, out)
	}
	if len(addresses) > 0 {
		return
	}
	// The events of the Service show why the cloud created no load balancer.
	fix := "see why: kubectl -n " + service.Namespace + " describe service " + service.Name
	if view.controller.ID == NGINXCommunity {
		fix += "; or install the controller as the provider documents it:\n" + in.provider().installHint()
	}
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		out.warn(subject, "it has no address of its own: it is reached on a port of the nodes only", fix)
		return
	}
	out.fail(subject, "its load balancer has no address (EXTERNAL-IP is pending)", fix)
}

// nodeAddress checks a controller without such a Service: it may listen on
// its nodes.
func (in *CheckContext) nodeAddress(view *controllerView, out *Report) {
	fix := "give the controller a Service of type LoadBalancer, see " + view.controller.Page
	if view.controller.ID == NGINXCommunity {
		fix = in.provider().installHint()
	}
	// Controllers with host ports or host network are reached at their nodes.
	for _, one := range view.workloads {
		if !one.hostPorts() {
			continue
		}
		out.inspect("%s listens on its nodes", one)
		nodes, err := in.nodes()
		if err != nil {
			out.readError("nodes", err)
			return
		}
		addresses := nodeAddresses(nodes)
		for _, address := range addresses[:min(len(addresses), maxDialed)] {
			out.inspect("a node has the address %s", address)
			evaluateAddress(one.String(), address, out)
		}
		return
	}
	out.inspect("Services of %s", view.controller.Name)
	out.fail(view.controller.Name, "no Service of type LoadBalancer or NodePort leads to it", fix)
}

// nodeAddresses returns the external addresses of the nodes, or the internal
// ones if there are none.
func nodeAddresses(nodes []corev1.Node) []string {
	var external, internal []string
	// Other address types are names, which clients outside of the cluster
	// cannot resolve.
	for _, node := range nodes {
		for _, one := range node.Status.Addresses {
			switch one.Type {
			case corev1.NodeExternalIP:
				external = append(external, one.Address)
			case corev1.NodeInternalIP:
				internal = append(internal, one.Address)
			case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			}
		}
	}
	if len(external) > 0 {
		return external
	}
	return internal
}

// evaluateAddress checks whether an address is reachable from other networks.
func evaluateAddress(subject, address string, out *Report) {
	const near = "it is only reachable from this machine, and not for the platform and webhooks of Git providers"
	// Load balancers report an IP address or a host name.
	parsed, err := netip.ParseAddr(address)
	switch {
	case err != nil && (strings.EqualFold(address, "localhost") || strings.HasSuffix(strings.ToLower(address), ".localhost")):
		out.warn(subject, "its address is "+address+": "+near, "use the tunnel, which needs no address, or a cluster with a load balancer")
	case err != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(address))) > 0:
		out.fail(subject, fmt.Sprintf("its address %q is neither an IP address nor a host name", address), "see what sets it")
	case err != nil:
	case parsed.IsLoopback():
		out.warn(subject, "its address is "+address+": "+near, "use the tunnel, which needs no address, or a cluster with a load balancer")
	case parsed.IsUnspecified() || parsed.IsMulticast() || parsed.IsLinkLocalUnicast():
		out.fail(subject, "its address "+address+" is not reachable", "see what sets it")
	// A private address is fine if platform and Git provider are in the same
	// network, so it is only information.
	case parsed.IsPrivate():
		out.note(subject, "its address "+address+" is private: the platform and the Git provider have to be in that network")
	}
}

// albAddress checks the status of the runtime's Ingress.
func (in *CheckContext) albAddress(ctx context.Context, out *Report) {
	// There is nothing to inspect yet.
	if in.Stage == Before {
		out.inspect("nothing: ALB makes a load balancer for the Ingress of the runtime")
		out.note("AWS ALB", "its address is there after the install, in the status of the Ingress")
		return
	}
	addresses, err := in.ingressAddresses(ctx)
	out.inspect("the status of the Ingress %s/%s", in.Settings.Namespace, mode.RouterService)
	if err != nil {
		out.missing(named("Ingress", in.Settings.Namespace, mode.RouterService), err, "install the runtime with --mode ingress")
		return
	}
	if len(addresses) == 0 {
		out.fail(named("Ingress", in.Settings.Namespace, mode.RouterService), "no load balancer was made for it", "see why: kubectl -n "+in.Settings.Namespace+" describe ingress "+mode.RouterService)
	}
}

// gatewayAddresses checks the addresses of the Gateways of an HTTPRoute.
func (in *CheckContext) gatewayAddresses(ctx context.Context, out *Report) {
	for _, parent := range in.Settings.HTTPRoute.ParentRefs {
		subject := named("Gateway", in.parentNamespace(parent), parent.Name)
		out.inspect("status.addresses of %s", subject)
		gateway, err := in.gateway(ctx, parent)
		if err != nil {
			out.missing(subject, err, "make it, or name another: kubectl get gateways -A")
			continue
		}
		addresses := addressesOfGateway(gateway)
		if len(addresses) == 0 {
			out.fail(subject, "it has no address", "see why: kubectl describe gateway")
		}
		for _, address := range addresses {
			evaluateAddress(subject, address, out)
		}
	}
}

// addressesOfGateway returns status.addresses of a Gateway.
func addressesOfGateway(gateway *unstructured.Unstructured) []string {
	var all []string
	list, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
	for _, each := range list {
		if one, ok := each.(map[string]any); ok {
			if value, _ := one["value"].(string); value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// publicAddresses returns the addresses that the host should resolve to, as
// far as the cluster reports them.
func (in *CheckContext) publicAddresses(ctx context.Context) []string {
	if in.requestedMode() == mode.HTTPRoute {
		var all []string
		for _, parent := range in.Settings.HTTPRoute.ParentRefs {
			if gateway, err := in.gateway(ctx, parent); err == nil {
				all = append(all, addressesOfGateway(gateway)...)
			}
		}
		return all
	}
	view, err := in.controller()
	if err != nil || !view.known {
		return nil
	}
	if view.controller.ID == ALB {
		addresses, _ := in.ingressAddresses(ctx) // P15 reports errors
		return addresses
	}
	return view.addresses()
}
