package backend

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

const fieldExternalName = "spec.externalName"

// external is a resolved external name.
type external struct {
	endpoint route.Endpoint
}

func (e external) set() bool { return e.endpoint.Host != "" || e.endpoint.Address.IsValid() }

// readExternalName resolves the external name of the Service, if it has one, and
// checks that requests may be sent there.
func (b *builder) readExternalName() *refusal.Refusal {
	if b.service.Spec.Type != corev1.ServiceTypeExternalName {
		return nil
	}
	if !b.options.ExternalNames {
		return refusal.New("spec.type", refusal.NotAllowed, "Services of type ExternalName are not served: "+
			"set providers.kubernetesIngress.allowExternalNameServices, or use a Service with endpoints")
	}
	name := strings.ToLower(strings.TrimSuffix(b.service.Spec.ExternalName, "."))
	endpoint := route.Endpoint{State: route.EndpointReady}
	if address, err := netip.ParseAddr(name); err == nil {
		address = address.Unmap()
		if why := forbidden(address); why != "" {
			return refusal.New(fieldExternalName, refusal.NotAllowed,
				"%s is %s, where no request is sent: give the address of a server", address, why)
		}
		endpoint.Address = netip.AddrPortFrom(address, uint16(b.port.Port))
	} else {
		if fault := b.checkName(name); fault != nil {
			fault.Field = fieldExternalName
			return fault
		}
		endpoint.Host, endpoint.Port = name, uint16(b.port.Port)
	}
	b.external = external{endpoint}
	return nil
}

// forbidden returns why no request may be sent to an address; empty if requests may.
// Metadata services of clouds hand out credentials of the machine; most of them are
// link-local, and the others are listed here.
func forbidden(address netip.Addr) string {
	switch {
	case address.Zone() != "" || address.IsLinkLocalUnicast():
		return "a link-local address"
	case address.IsLoopback():
		return "the machine itself"
	case address.Is4() && address.As4()[0] == 0 || address.IsUnspecified():
		return "no address of a server"
	case address.IsMulticast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "an address of many"
	}
	switch address.String() {
	case "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192":
		return "the metadata service of a cloud"
	}
	if inner, found := translated(address); found {
		return forbidden(inner)
	}
	return ""
}

// translated returns the IPv4 address that a NAT64 gateway would connect to (RFC
// 6052), so that it is checked too.
func translated(address netip.Addr) (netip.Addr, bool) {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(address) {
		return netip.Addr{}, false
	}
	bytes := address.As16()
	return netip.AddrFrom4([4]byte(bytes[12:])), true
}

// checkName refuses invalid names, and names of Services in other namespaces where
// those are not allowed.
func (b *builder) checkName(name string) *refusal.Refusal {
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case !validName(labels) || len(name) > 253:
		return refusal.New("", refusal.Invalid, "%q is neither a DNS name nor an IP address", shorten(name))
	case last == "localhost" || last == "localdomain" || slices.Contains([]string{"ip6-localhost", "ip6-loopback"}, name):
		return refusal.New("", refusal.NotAllowed, "%s is the machine itself, where no request is sent: give the name of a server", name)
	case numeric(last):
		return refusal.New("", refusal.Invalid, "%s reads as an IP address and is not one: write four numbers from 0 to 255", name)
	case len(labels) == 1:
		return refusal.New("", refusal.Invalid,
			"%s has no domain, so it would be looked up in the namespace of the edge: write the whole name", name)
	}
	if namespace := b.foreign(labels); namespace != "" {
		return refusal.New("", refusal.NotAllowed,
			"%s leads to the namespace %s: use a Service of %s, or set providers.kubernetesIngress.allowCrossNamespace",
			name, namespace, b.service.Namespace)
	}
	return nil
}

// foreign returns the other namespace that a name refers to; empty if it refers to
// none or is allowed. The cluster domain is unknown, so "svc" inside a name counts
// as that of a Service.
func (b *builder) foreign(labels []string) string {
	own := b.service.Namespace
	if b.options.CrossNamespace {
		return ""
	}
	for i := 2; i < len(labels); i++ {
		if (labels[i] == "svc" || labels[i] == "pod") && labels[i-1] != own {
			return labels[i-1]
		}
	}
	// The search domains of a Pod complete short names: name.namespace is a Service
	// before it is a public name.
	service, namespace := labels[len(labels)-2], labels[len(labels)-1]
	if namespace != own && b.view.Service(namespace, service) != nil {
		return namespace
	}
	return ""
}

// validName reports whether the labels form a DNS name.
func validName(labels []string) bool {
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// numeric reports whether a name with this last label is an address for some
// resolvers: 127.1, 0x7f.1 and 2130706433 are all the machine itself.
func numeric(last string) bool {
	if digits, hex := strings.CutPrefix(last, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func shorten(text string) string { return refusal.Shorten(text, 80) }
