package status

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applydiscoveryv1 "k8s.io/client-go/applyconfigurations/discovery/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The Service of a Gateway with an address of the pool is its name in the DNS of the
// cluster: a headless one without a selector, whose only endpoint is that address. In a
// cluster without a pool it gives the Gateway its address: its endpoints are the Pods of
// the edge, with a target port for each port. It has the labels and annotations of
// spec.infrastructure, and goes with the Gateway.

// gatewayService is the version of a Gateway that its Service was written for.
type gatewayService struct {
	object *gatewayv1.Gateway
	// address is that of a headless Service, and leads is what another one leads to.
	address string
	leads   *gateway.Service
}

// same reports whether two versions have the same Service.
func (s gatewayService) same(other gatewayService) bool {
	return s.object != nil && s.object.UID == other.object.UID && s.object.Generation == other.object.Generation && s.address == other.address
}

// writeService creates or updates the Service of a Gateway, if it has an address and its
// Service is not the one that was written last. One that has the name and does not belong
// to the Gateway stays as it is.
func (w *GatewayWriter) writeService(ctx context.Context, ref snapshot.Ref, rate flowcontrol.RateLimiter) error {
	wanted, missing := w.missingService(ref)
	if !missing || rate.Wait(ctx) != nil {
		return nil
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	name, services := gateway.ServiceName(ref.Name), w.cluster.Client.CoreV1().Services(ref.Namespace)
	before, err := services.Get(request, name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err == nil && !metav1.IsControlledBy(before, wanted.object):
		return fmt.Errorf("the Service %s/%s does not belong to the Gateway: delete it", ref.Namespace, name)
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	if _, err := services.Apply(request, wanted.service(name), options); err != nil {
		return err
	}
	if _, err := w.cluster.Client.DiscoveryV1().EndpointSlices(ref.Namespace).Apply(request, wanted.slice(name), options); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published[ref] = wanted
	return nil
}

// missingService returns the Gateway whose Service has to be written, and whether there is
// one. An address of loopback means nothing to others in the cluster.
func (w *GatewayWriter) missingService(ref snapshot.Ref) (gatewayService, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[ref]
	if w.published == nil || record == nil || record.wanted.Gateway == nil {
		return gatewayService{}, false
	}
	wanted := gatewayService{leads: record.wanted.Service}
	wanted.object, _ = record.object.(*gatewayv1.Gateway)
	if wanted.object == nil || wanted.object.DeletionTimestamp != nil {
		return gatewayService{}, false
	}
	if wanted.leads != nil {
		// A Service has at least one port, and its first ones come with the targets.
		return wanted, len(wanted.leads.Ports) > 0 && (!wanted.leads.Current || !w.published[ref].same(wanted))
	}
	if len(record.wanted.Gateway.Addresses) == 0 {
		return gatewayService{}, false
	}
	wanted.address = record.wanted.Gateway.Addresses[0].Value
	address, err := netip.ParseAddr(wanted.address)
	if err != nil || address.IsLoopback() {
		return gatewayService{}, false
	}
	return wanted, !w.published[ref].same(wanted)
}

// owner returns the reference by which the Service goes with the Gateway.
func (s gatewayService) owner() *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().WithAPIVersion(gatewayv1.GroupVersion.String()).WithKind("Gateway").
		WithName(s.object.Name).WithUID(s.object.UID).WithController(true)
}

// labels returns the labels of the Service and its EndpointSlice. Values are shorter than
// the longest names of Gateways.
func (s gatewayService) labels() map[string]string {
	labels := map[string]string{"app.kubernetes.io/managed-by": FieldManager}
	if len(validation.IsValidLabelValue(s.object.Name)) == 0 {
		labels[gatewayv1.GatewayNameLabelKey] = s.object.Name
	}
	return labels
}

// service returns the Service.
func (s gatewayService) service(name string) *applycorev1.ServiceApplyConfiguration {
	service := applycorev1.Service(name, s.object.Namespace).WithOwnerReferences(s.owner()).WithSpec(s.spec())
	if infrastructure := s.object.Spec.Infrastructure; infrastructure != nil {
		for key, value := range infrastructure.Labels {
			service.WithLabels(map[string]string{string(key): string(value)})
		}
		for key, value := range infrastructure.Annotations {
			service.WithAnnotations(map[string]string{string(key): string(value)})
		}
	}
	return service.WithLabels(s.labels())
}

// spec returns the spec of the Service. The addresses of one that leads to Pods are those
// that the cluster gives it.
func (s gatewayService) spec() *applycorev1.ServiceSpecApplyConfiguration {
	if s.leads == nil {
		return applycorev1.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone)
	}
	spec := applycorev1.ServiceSpec().WithType(corev1.ServiceType(s.leads.Type))
	if s.leads.Type != string(corev1.ServiceTypeClusterIP) {
		// Limits by client need its address, which nodes that forward would replace.
		spec.WithExternalTrafficPolicy(corev1.ServiceExternalTrafficPolicyLocal)
	}
	if s.leads.LoadBalancerIP != "" {
		spec.WithLoadBalancerIP(s.leads.LoadBalancerIP)
	}
	for _, port := range s.leads.Ports {
		spec.WithPorts(applycorev1.ServicePort().WithName(port.Name()).WithProtocol(port.Protocol()).
			WithPort(int32(port.Port)).WithTargetPort(intstr.FromInt32(int32(port.Target))))
	}
	return spec
}

// endpoints adds the Pods of the edge to an EndpointSlice, and its target ports.
func (s gatewayService) endpoints(slice *applydiscoveryv1.EndpointSliceApplyConfiguration) *applydiscoveryv1.EndpointSliceApplyConfiguration {
	for _, port := range s.leads.Ports {
		slice.WithPorts(applydiscoveryv1.EndpointPort().WithName(port.Name()).WithProtocol(port.Protocol()).WithPort(int32(port.Target)))
	}
	for _, at := range s.leads.Endpoints {
		endpoint := applydiscoveryv1.Endpoint().WithAddresses(at.Address).WithConditions(applydiscoveryv1.EndpointConditions().WithReady(true))
		// The node is for Services that stay on it, and the zone for hints.
		if at.Node != "" {
			endpoint.WithNodeName(at.Node)
		}
		if at.Zone != "" {
			endpoint.WithZone(at.Zone)
		}
		slice.WithEndpoints(endpoint)
	}
	return slice
}

// slice returns the EndpointSlice of the Service. It has no label of the author of the
// Gateway: labels decide which Service an EndpointSlice belongs to.
func (s gatewayService) slice(name string) *applydiscoveryv1.EndpointSliceApplyConfiguration {
	first := s.address
	if s.leads != nil && len(s.leads.Endpoints) > 0 {
		first = s.leads.Endpoints[0].Address
	}
	family := discoveryv1.AddressTypeIPv4
	if address, err := netip.ParseAddr(first); err == nil && address.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	labels := s.labels()
	labels[discoveryv1.LabelServiceName] = name
	slice := applydiscoveryv1.EndpointSlice(name, s.object.Namespace).WithOwnerReferences(s.owner()).WithLabels(labels).WithAddressType(family)
	if s.leads != nil {
		return s.endpoints(slice)
	}
	return slice.WithEndpoints(applydiscoveryv1.Endpoint().WithAddresses(s.address).WithConditions(applydiscoveryv1.EndpointConditions().WithReady(true)))
}
