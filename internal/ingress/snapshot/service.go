package snapshot

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ServiceFacts is the part of a Service that routes depend on. Clusters have thousands of
// Services, and most fields of one are those of other controllers.
type ServiceFacts struct {
	Namespace, Name string
	UID             types.UID
	Annotations     map[string]string
	Spec            ServiceSpec
	// LoadBalancer has the addresses of the Service, as its status has them.
	LoadBalancer []corev1.LoadBalancerIngress
}

// ServiceSpec is the part of the spec.
type ServiceSpec struct {
	Type corev1.ServiceType
	// Ports can be those of other Services, too.
	Ports        []corev1.ServicePort
	ClusterIP    string
	ClusterIPs   []string
	IPFamilies   []corev1.IPFamily
	ExternalName string

	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy
	// Selects is set if the Service has a selector.
	Selects bool
}

// factsOfService returns the facts of a Service.
func factsOfService(object *corev1.Service) *ServiceFacts {
	spec := &object.Spec
	return &ServiceFacts{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, Annotations: object.Annotations, LoadBalancer: object.Status.LoadBalancer.Ingress,
		Spec: ServiceSpec{
			Type: spec.Type, Ports: spec.Ports, ClusterIP: spec.ClusterIP, ClusterIPs: spec.ClusterIPs, IPFamilies: spec.IPFamilies,
			ExternalName: spec.ExternalName, ExternalTrafficPolicy: spec.ExternalTrafficPolicy, Selects: len(spec.Selector) > 0,
		},
	}
}

// putService stores the facts of a Service.
func (s *Snapshot) putService(service *ServiceFacts) []Ref {
	at := key{service.Namespace, service.Name}
	before := s.services[at]
	service.Spec.Ports = s.shared.servicePorts(service.Spec.Ports)
	s.services[at] = service
	return changed(before == nil || !sameService(before, service), Ref{Service, service.Namespace, service.Name})
}

// sameService compares the addresses of a load balancer, too: they are copied from it.
func sameService(a, b *ServiceFacts) bool {
	return a.UID == b.UID && sameAnnotations(a.Annotations, b.Annotations) && reflect.DeepEqual(&a.Spec, &b.Spec) && reflect.DeepEqual(a.LoadBalancer, b.LoadBalancer)
}

// Slice is the part of an EndpointSlice that routes depend on.
type Slice struct {
	Namespace, Name string
	// Service is the name of its Service, empty for none.
	Service     string
	AddressType discoveryv1.AddressType
	// Ports can be those of other slices, too.
	Ports     []discoveryv1.EndpointPort
	Endpoints []discoveryv1.Endpoint
}

// sliceOf returns the part of an EndpointSlice.
func sliceOf(object *discoveryv1.EndpointSlice) *Slice {
	return &Slice{
		Namespace: object.Namespace, Name: object.Name, Service: object.Labels[discoveryv1.LabelServiceName],
		AddressType: object.AddressType, Ports: object.Ports, Endpoints: object.Endpoints,
	}
}

// putSlice stores a slice among those of its Service.
func (s *Snapshot) putSlice(slice *Slice) []Ref {
	at := key{slice.Namespace, slice.Name}
	before := s.slices[at]
	slice.Ports = s.shared.endpointPorts(slice.Ports)
	s.slices[at] = slice
	if before != nil && before.Service == slice.Service {
		siblings := s.ofService[key{slice.Namespace, slice.Service}]
		if i := slices.Index(siblings, before); i >= 0 {
			siblings[i] = slice
		}
		return changed(!sameSlice(before, slice), Ref{EndpointSlice, slice.Namespace, slice.Service})
	}
	var refs []Ref
	if before != nil {
		refs = s.unlink(before)
	}
	if slice.Service == "" {
		return refs
	}
	owner := key{slice.Namespace, slice.Service}
	s.ofService[owner] = append(s.ofService[owner], slice)
	slices.SortFunc(s.ofService[owner], func(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) })
	return append(refs, Ref{EndpointSlice, slice.Namespace, slice.Service})
}

// unlink removes a slice from those of its Service.
func (s *Snapshot) unlink(slice *Slice) []Ref {
	if slice.Service == "" {
		return nil
	}
	owner := key{slice.Namespace, slice.Service}
	rest := slices.DeleteFunc(s.ofService[owner], func(v *Slice) bool { return v == slice })
	if len(rest) == 0 {
		delete(s.ofService, owner)
	} else {
		s.ofService[owner] = rest
	}
	return []Ref{{EndpointSlice, slice.Namespace, slice.Service}}
}

func sameSlice(a, b *Slice) bool {
	return a.AddressType == b.AddressType && reflect.DeepEqual(a.Ports, b.Ports) && reflect.DeepEqual(a.Endpoints, b.Endpoints)
}

// maxShared bounds the lists of ports that are remembered.
const maxShared = 1024

// sharedPorts makes equal lists of one port share their memory: most Services have one port,
// and few different ones.
type sharedPorts struct {
	services  map[corev1.ServicePort][]corev1.ServicePort
	endpoints map[endpointPort][]discoveryv1.EndpointPort
}

// endpointPort are the values of an EndpointPort.
type endpointPort struct {
	name     string
	port     int32
	protocol corev1.Protocol
}

func (p *sharedPorts) servicePorts(ports []corev1.ServicePort) []corev1.ServicePort {
	// Pointers would be compared instead of values.
	if len(ports) != 1 || ports[0].AppProtocol != nil {
		return ports
	}
	return remember(&p.services, ports[0], ports)
}

func (p *sharedPorts) endpointPorts(ports []discoveryv1.EndpointPort) []discoveryv1.EndpointPort {
	if len(ports) != 1 {
		return ports
	}
	of := &ports[0]
	if of.Name == nil || of.Port == nil || of.Protocol == nil || of.AppProtocol != nil {
		return ports
	}
	return remember(&p.endpoints, endpointPort{*of.Name, *of.Port, *of.Protocol}, ports)
}

// remember returns the value that is known for a key, and else the given one.
func remember[K comparable, V any](known *map[K]V, key K, value V) V {
	if found, ok := (*known)[key]; ok {
		return found
	}
	if *known == nil || len(*known) >= maxShared {
		*known = map[K]V{}
	}
	(*known)[key] = value
	return value
}
