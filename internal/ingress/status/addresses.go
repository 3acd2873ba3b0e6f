package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// addressLimit bounds the addresses of one status. They are written to every
// Ingress, and tools that read them, such as external-dns, expect a few.
const addressLimit = 64

type (
	// addressEntry is one address of a status.
	addressEntry = networkingv1.IngressLoadBalancerIngress
	// portEntry is a port at an address.
	portEntry = networkingv1.IngressPortStatus
)

// published has the addresses of Ingresses. The list is sorted and without
// duplicates, so that all replicas write the same; empty means unknown. problem
// describes what is wrong with their source.
type published struct {
	addresses []addressEntry
	// plain is the port of plain HTTP; all others count as encrypted.
	plain   int32
	problem string
}

const protocolTCP = corev1.ProtocolTCP

// addressesOf returns the addresses of the published Service if one is configured,
// else the configured IP and host name.
func addressesOf(options *Options, service *corev1.Service, nodes []*snapshot.NodeFacts) published {
	var found published
	if options.PublishedService != "" {
		found = serviceAddresses(options, service, nodes)
	} else {
		found = givenAddresses(options)
	}
	found.addresses = canonical(found.addresses)
	found.plain = plainPort
	if options.PublishedService != "" && service != nil && service.Spec.Type == corev1.ServiceTypeNodePort {
		found.plain = nodePortOf(service, plainPort)
	}
	if extra := len(found.addresses) - addressLimit; extra > 0 {
		found.addresses = found.addresses[:addressLimit]
		found.problem = fmt.Sprintf("%d addresses are left out: a status has at most %d", extra, addressLimit)
	}
	return found
}

// givenAddresses returns the configured IP and host name. They are two names of one
// address, so they are one entry, as in Traefik.
func givenAddresses(options *Options) published {
	var found published
	var given addressEntry
	if options.IP != "" {
		if ip, err := netip.ParseAddr(options.IP); err != nil || ip.Zone() != "" {
			found.problem = fmt.Sprintf("ingressEndpoint.ip %q is not an IP address", options.IP)
		} else {
			given.IP = ip.String()
		}
	}
	if given.Hostname = options.Hostname; given.Hostname != "" {
		found.add(given, "ingressEndpoint.hostname")
	}
	// An invalid name does not take the address with it.
	if given.IP != "" && len(found.addresses) == 0 {
		found.addresses = append(found.addresses, addressEntry{IP: given.IP})
	}
	return found
}

// add adds an entry with a host name after validation: the API server rejects the
// whole status for one invalid name.
func (p *published) add(entry addressEntry, where string) {
	entry.Hostname = strings.ToLower(strings.TrimSuffix(entry.Hostname, "."))
	if len(validation.IsDNS1123Subdomain(entry.Hostname)) > 0 || isIP(entry.Hostname) {
		p.problem = fmt.Sprintf("%s: %q is not a host name", where, entry.Hostname)
		return
	}
	p.addresses = append(p.addresses, entry)
}

func isIP(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func serviceAddresses(options *Options, service *corev1.Service, nodes []*snapshot.NodeFacts) published {
	if service == nil {
		namespace, _, _ := strings.Cut(options.PublishedService, "/")
		if len(options.Namespaces) > 0 && !slices.Contains(options.Namespaces, namespace) {
			return published{problem: "the Service " + options.PublishedService + " cannot be read: add its namespace to namespaces"}
		}
		return published{problem: "there is no Service " + options.PublishedService + ": correct ingressEndpoint.publishedService, or create it"}
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		return balancerAddresses(service)
	case corev1.ServiceTypeNodePort:
		return nodeAddresses(options, service, nodes)
	case corev1.ServiceTypeExternalName:
		var found published
		found.add(addressEntry{Hostname: service.Spec.ExternalName}, "the Service "+options.PublishedService)
		return found
	default:
		return externalAddresses(options, service)
	}
}

// balancerAddresses copies the addresses of a load balancer, with the errors of its
// ports, which its controller writes.
func balancerAddresses(service *corev1.Service) published {
	var found published
	for _, from := range service.Status.LoadBalancer.Ingress {
		entry := addressEntry{IP: from.IP, Hostname: from.Hostname}
		for _, port := range from.Ports {
			entry.Ports = append(entry.Ports, portEntry{Port: port.Port, Protocol: port.Protocol, Error: port.Error})
		}
		if entry.IP != "" || entry.Hostname != "" {
			found.addresses = append(found.addresses, entry)
		}
	}
	return found
}

// externalAddresses returns the external IPs of a Service. A ClusterIP is not
// published: clients outside of the cluster cannot reach it.
func externalAddresses(options *Options, service *corev1.Service) published {
	if len(service.Spec.ExternalIPs) == 0 {
		return published{problem: "the Service " + options.PublishedService + " has no spec.externalIPs to publish: set them, or use a Service of type LoadBalancer"}
	}
	var found published
	for _, ip := range service.Spec.ExternalIPs {
		entry := addressEntry{IP: ip}
		for _, port := range service.Spec.Ports {
			entry.Ports = append(entry.Ports, portEntry{Port: port.Port, Protocol: port.Protocol})
		}
		found.addresses = append(found.addresses, entry)
	}
	return found
}

// nodeAddresses returns the external addresses of all nodes, as Traefik does. Nodes
// that are not ready are included: readiness comes and goes, and each change would
// be written to the status of every Ingress.
func nodeAddresses(options *Options, service *corev1.Service, nodes []*snapshot.NodeFacts) published {
	if options.NoNodes {
		return published{problem: "the Service " + options.PublishedService +
			" has type NodePort, and nodes are not read: unset disableClusterScopeResources, or set ingressEndpoint.ip"}
	}
	var found published
	for _, node := range nodes {
		for _, ip := range node.External {
			entry := addressEntry{IP: ip.String()}
			for _, port := range service.Spec.Ports {
				if port.NodePort != 0 {
					entry.Ports = append(entry.Ports, portEntry{Port: port.NodePort, Protocol: port.Protocol})
				}
			}
			found.addresses = append(found.addresses, entry)
		}
	}
	if len(found.addresses) == 0 {
		found.problem = "no node has an ExternalIP: set ingressEndpoint.ip or hostname instead of publishedService"
	}
	return found
}

// nodePortOf returns the node port of a port of a Service; 0 for none.
func nodePortOf(service *corev1.Service, port int32) int32 {
	for i := range service.Spec.Ports {
		if service.Spec.Ports[i].Port == port {
			return service.Spec.Ports[i].NodePort
		}
	}
	return 0
}

// canonical returns the entries sorted, without duplicates and with explicit
// protocols, so that lists can be compared. It does not modify its argument.
func canonical(entries []addressEntry) []addressEntry {
	ordered := make([]addressEntry, 0, len(entries))
	for _, entry := range entries {
		entry.Ports = slices.Clone(entry.Ports)
		for i := range entry.Ports {
			entry.Ports[i].Protocol = cmp.Or(entry.Ports[i].Protocol, protocolTCP)
		}
		slices.SortFunc(entry.Ports, comparePorts)
		entry.Ports = slices.CompactFunc(entry.Ports, func(a, b portEntry) bool { return comparePorts(a, b) == 0 })
		ordered = append(ordered, entry)
	}
	slices.SortFunc(ordered, compareEntries)
	return slices.CompactFunc(ordered, func(a, b addressEntry) bool { return compareEntries(a, b) == 0 })
}

func compareEntries(a, b addressEntry) int {
	return cmp.Or(
		strings.Compare(a.IP, b.IP),
		strings.Compare(a.Hostname, b.Hostname),
		slices.CompareFunc(a.Ports, b.Ports, comparePorts),
	)
}

func comparePorts(a, b portEntry) int {
	return cmp.Or(
		cmp.Compare(a.Port, b.Port),
		strings.Compare(string(a.Protocol), string(b.Protocol)),
		strings.Compare(errorOf(a), errorOf(b)),
	)
}

func errorOf(port portEntry) string {
	if port.Error == nil {
		return ""
	}
	return *port.Error
}

// sameAddresses reports whether two canonical lists are equal.
func sameAddresses(a, b []addressEntry) bool {
	return slices.EqualFunc(a, b, func(a, b addressEntry) bool { return compareEntries(a, b) == 0 })
}
