package status

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applydiscoveryv1 "k8s.io/client-go/applyconfigurations/discovery/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The Service of a Gateway is its name in the DNS of the cluster: a headless one without
// a selector, whose only endpoint is the address of the Gateway. It has the labels and
// annotations of spec.infrastructure, and goes with the Gateway.

// servicePrefix begins the names of these Services and their EndpointSlices.
const servicePrefix = "slipway-"

// gatewayService is the version of a Gateway that its Service was written for.
type gatewayService struct {
	object  *gatewayv1.Gateway
	address string
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
	name, services := serviceName(ref.Name), w.cluster.Client.CoreV1().Services(ref.Namespace)
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
	if w.published == nil || record == nil || record.wanted.Gateway == nil || len(record.wanted.Gateway.Addresses) == 0 {
		return gatewayService{}, false
	}
	wanted := gatewayService{address: record.wanted.Gateway.Addresses[0].Value}
	wanted.object, _ = record.object.(*gatewayv1.Gateway)
	address, err := netip.ParseAddr(wanted.address)
	if err != nil || address.IsLoopback() || wanted.object == nil || wanted.object.DeletionTimestamp != nil {
		return gatewayService{}, false
	}
	return wanted, !w.published[ref].same(wanted)
}

// serviceName returns the name of the Service of a Gateway, which has to be a label of
// DNS; names of Gateways can be longer, and have dots.
func serviceName(gateway string) string {
	if name := servicePrefix + gateway; len(validation.IsDNS1035Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(gateway))
	return servicePrefix + hex.EncodeToString(sum[:8])
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
	service := applycorev1.Service(name, s.object.Namespace).WithOwnerReferences(s.owner()).
		WithSpec(applycorev1.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone))
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

// slice returns the EndpointSlice of the Service. It has no label of the author of the
// Gateway: labels decide which Service an EndpointSlice belongs to.
func (s gatewayService) slice(name string) *applydiscoveryv1.EndpointSliceApplyConfiguration {
	family := discoveryv1.AddressTypeIPv4
	if address, err := netip.ParseAddr(s.address); err == nil && address.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	labels := s.labels()
	labels[discoveryv1.LabelServiceName] = name
	return applydiscoveryv1.EndpointSlice(name, s.object.Namespace).WithOwnerReferences(s.owner()).WithLabels(labels).
		WithAddressType(family).
		WithEndpoints(applydiscoveryv1.Endpoint().WithAddresses(s.address).WithConditions(applydiscoveryv1.EndpointConditions().WithReady(true)))
}
