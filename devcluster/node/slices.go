package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// desiredSlices computes the EndpointSlices of a Service: one for each selected
// Pod, because in host mode every Pod has ports of its own, and a slice has one
// list of ports. It is a pure function; the slices are sorted by name. A
// Service without a selector manages its own endpoints, so it gets none.
func desiredSlices(service *corev1.Service, pods []podView) []discoveryv1.EndpointSlice {
	if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var out []discoveryv1.EndpointSlice
	for _, v := range pods {
		over := v.pod.Status.Phase == corev1.PodSucceeded || v.pod.Status.Phase == corev1.PodFailed
		if over || v.pod.Namespace != service.Namespace || !selector.Matches(labels.Set(v.pod.Labels)) || !servesFamily(service, v) {
			continue
		}
		ports := slicePorts(service, v.ports)
		if len(ports) == 0 && len(service.Spec.Ports) > 0 {
			// A slice without ports describes a Service without ports, such as
			// a headless one, and not a Pod that offers none of them.
			continue
		}
		out = append(out, discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:            sliceName(service, v.pod),
				Namespace:       service.Namespace,
				Labels:          sliceLabels(service),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
			},
			AddressType: addressType(v),
			Endpoints:   []discoveryv1.Endpoint{sliceEndpoint(service, v)},
			Ports:       ports,
		})
	}
	slices.SortFunc(out, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// sliceName returns a name that depends only on the Service and the Pod, so
// that a restart of the node finds its slices again. The hash of both UIDs
// keeps pairs apart whose joined names would be equal.
func sliceName(service *corev1.Service, pod *corev1.Pod) string {
	sum := sha256.Sum256([]byte(string(service.UID) + "\x00" + string(pod.UID)))
	return service.Name + "-" + hex.EncodeToString(sum[:8])
}

// sliceLabels returns the labels that the EndpointSlice controller sets: those
// of the Service, the mark of a headless one, the Service's name and the
// manager.
func sliceLabels(service *corev1.Service) map[string]string {
	out := map[string]string{}
	maps.Copy(out, service.Labels)
	delete(out, corev1.IsHeadlessService)
	if service.Spec.ClusterIP == corev1.ClusterIPNone || service.Spec.ClusterIP == "" {
		out[corev1.IsHeadlessService] = ""
	}
	out[discoveryv1.LabelServiceName] = service.Name
	out[discoveryv1.LabelManagedBy] = componentName
	return out
}

// addressType returns the family of the Pod's address.
func addressType(v podView) discoveryv1.AddressType {
	if v.ports.addr.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// servesFamily reports whether the Service accepts endpoints of the Pod's
// family. Address types and IP families have the same names.
func servesFamily(service *corev1.Service, v podView) bool {
	// Address types and IP families have the same names.
	return len(service.Spec.IPFamilies) == 0 || slices.Contains(service.Spec.IPFamilies, corev1.IPFamily(addressType(v)))
}

// slicePorts resolves the ports of a Service to the real ports of this Pod. A
// port that the Pod does not have is left out.
func slicePorts(service *corev1.Service, ports portMap) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range service.Spec.Ports {
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			continue
		}
		target := p.TargetPort
		// An unset targetPort means the port itself, as in the API.
		if target.IntVal == 0 && target.StrVal == "" {
			target.IntVal = p.Port
		}
		real, found := ports.forService(target)
		if !found {
			continue
		}
		name, protocol, number := p.Name, corev1.ProtocolTCP, int32(real)
		out = append(out, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number, AppProtocol: p.AppProtocol})
	}
	return out
}

// sliceEndpoint returns the endpoint with the conditions of the EndpointSlice
// API: serving follows the Pod's Ready condition, and ready excludes a
// terminating Pod as well, unless the Service publishes not-ready addresses.
// The hostname is for the DNS records of a headless Service.
func sliceEndpoint(service *corev1.Service, v podView) discoveryv1.Endpoint {
	serving := slices.ContainsFunc(v.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	terminating := v.pod.DeletionTimestamp != nil
	ready := service.Spec.PublishNotReadyAddresses || serving && !terminating
	node := v.pod.Spec.NodeName
	endpoint := discoveryv1.Endpoint{
		Addresses:  []string{v.ports.addr.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		NodeName:   &node,
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: v.pod.Namespace, Name: v.pod.Name, UID: v.pod.UID},
	}
	if host := v.pod.Spec.Hostname; host != "" && v.pod.Spec.Subdomain == service.Name {
		endpoint.Hostname = &host
	}
	return endpoint
}
