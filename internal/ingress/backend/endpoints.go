package backend

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// MaxEndpoints bounds the endpoints of a backend.
const MaxEndpoints = 5000

// Origin is the source of the endpoints of a backend.
type Origin string

// The origins.
const (
	// FromSlices: the EndpointSlices of the Service.
	FromSlices Origin = "slices"
	// FromService: the address of the Service itself.
	FromService Origin = "service"
	// FromNodes: the nodes, at the node port of the Service.
	FromNodes Origin = "nodes"
	// FromName: the external name of the Service.
	FromName Origin = "name"
)

// Endpoints counts the endpoints of a backend, for explain.
type Endpoints struct {
	From Origin
	// Ready counts ready endpoints, in all zones.
	Ready int
	// Draining counts those that terminate and still serve.
	Draining int
	// NotReady counts those that get no requests.
	NotReady int
	// Elsewhere counts those of Ready that only edges of other zones use.
	Elsewhere int
}

// String returns the counts as text: 3 ready, 1 draining, 2 not ready.
func (e Endpoints) String() string {
	switch e.From {
	case FromService:
		return "the address of the Service"
	case FromName:
		return "the external name of the Service"
	case FromNodes:
		return finding.Count(e.Ready, "node", "nodes") + " ready"
	}
	text := fmt.Sprintf("%d ready", e.Ready)
	if e.Elsewhere > 0 {
		text += fmt.Sprintf(" (%d left to other zones)", e.Elsewhere)
	}
	if e.Draining > 0 {
		text += fmt.Sprintf(", %d draining", e.Draining)
	}
	if e.NotReady > 0 {
		text += fmt.Sprintf(", %d not ready", e.NotReady)
	}
	return text
}

// setEndpoints sets the endpoints from the source that applies.
func (b *builder) setEndpoints() *refusal.Refusal {
	var endpoints []route.Endpoint
	var fault *refusal.Refusal
	switch {
	case b.settings.NodePortLB != nil && *b.settings.NodePortLB:
		endpoints, fault = b.nodeEndpoints()
	case b.external.set():
		endpoints = []route.Endpoint{b.external.endpoint}
		b.result.Endpoints = Endpoints{From: FromName, Ready: 1}
	case b.native():
		endpoints, fault = b.serviceEndpoint()
	default:
		endpoints = b.sliceEndpoints()
	}
	if fault != nil {
		return fault
	}
	b.result.Backend.Endpoints = b.limited(endpoints)
	return nil
}

// limited truncates the sorted endpoints to MaxEndpoints. Draining ones are dropped
// first: they must not displace one that is ready.
func (b *builder) limited(endpoints []route.Endpoint) []route.Endpoint {
	if len(endpoints) <= MaxEndpoints {
		return endpoints
	}
	b.refuse(refusal.New("", refusal.TooLarge,
		"there are %d endpoints, and only %d are served: spread the Pods over several Services, or use native-lb", len(endpoints), MaxEndpoints))
	endpoints = slices.DeleteFunc(endpoints, func(e route.Endpoint) bool { return e.State == route.EndpointDraining })
	return slices.Clone(endpoints[:min(len(endpoints), MaxEndpoints)])
}

// readiness is the state of an endpoint. A higher value is better.
type readiness uint8

const (
	out readiness = iota
	draining
	ready
)

// readinessOf evaluates the conditions with the defaults of the API: ready is true
// if unset, and the other conditions follow from it.
func readinessOf(conditions discoveryv1.EndpointConditions) readiness {
	switch {
	case conditions.Ready == nil || *conditions.Ready:
		return ready
	case conditions.Serving != nil && *conditions.Serving && conditions.Terminating != nil && *conditions.Terminating:
		return draining
	default:
		return out
	}
}

// candidate is an endpoint of a slice.
type candidate struct {
	at        netip.AddrPort
	readiness readiness
	position  int // in the order of the slices
	owner     owner
	pod       string // its name, empty for another target
	podUID    types.UID
	node      string
	zone      string
	hints     []discoveryv1.ForZone
}

// owner is the target of an endpoint, most often a Pod. It is zero if the slice has
// none.
type owner struct{ kind, namespace, name string }

func ownerOf(endpoint *discoveryv1.Endpoint) owner {
	switch target := endpoint.TargetRef; {
	case target != nil && target.UID != "":
		return owner{"uid", "", string(target.UID)}
	case target != nil && target.Name != "":
		return owner{"target " + target.Kind, target.Namespace, target.Name}
	case target == nil && text(endpoint.NodeName) != "" && text(endpoint.Hostname) != "":
		return owner{"host", *endpoint.NodeName, *endpoint.Hostname}
	}
	return owner{}
}

// sliceEndpoints returns the endpoints of the EndpointSlices, filtered by zone.
func (b *builder) sliceEndpoints() []route.Endpoint {
	all := b.candidates()
	counts := Endpoints{From: FromSlices}
	for i := range all {
		switch all[i].readiness {
		case ready:
			counts.Ready++
		case draining:
			counts.Draining++
		default:
			counts.NotReady++
		}
	}
	release := b.findRelease(all)
	zone := ""
	// The canary may run in another zone, and has its share here too.
	if release == nil && hinted(all, b.options.Zone) {
		zone = b.options.Zone
	}
	if counts.Ready+counts.Draining == 0 {
		b.result.Endpoints = counts
		return nil
	}
	endpoints := make([]route.Endpoint, 0, counts.Ready+counts.Draining)
	for i := range all {
		c := &all[i]
		state := route.EndpointReady
		switch {
		case c.readiness == out:
			continue
		case c.readiness == draining && counts.Ready > 0:
			state = route.EndpointDraining
		case zone != "" && !c.hintedFor(zone):
			counts.Elsewhere++
			if b.result.Backend.Sticky == nil {
				continue
			}
			// A sticky client of that zone may reach this replica.
			state = route.EndpointDraining
		}
		endpoint := route.Endpoint{Address: c.at, Zone: c.zone, State: state}
		if release != nil {
			endpoint.Revision = release.revisionOf(c)
		}
		endpoints = append(endpoints, endpoint)
	}
	if release != nil {
		b.result.Backend.Release = release.shares()
	}
	b.result.Endpoints = counts
	return endpoints
}

// hinted reports whether topology hints apply: every ready endpoint has some, and
// one is for the zone. Otherwise traffic could overload or miss endpoints.
func hinted(all []candidate, zone string) bool {
	if zone == "" {
		return false
	}
	found := false
	for i := range all {
		if all[i].readiness != ready {
			continue
		}
		if len(all[i].hints) == 0 {
			return false
		}
		found = found || all[i].hintedFor(zone)
	}
	return found
}

func (c *candidate) hintedFor(zone string) bool {
	return slices.ContainsFunc(c.hints, func(hint discoveryv1.ForZone) bool { return hint.Name == zone })
}

// candidates returns the endpoints of the Service's port, each address and each Pod
// once, sorted by address.
func (b *builder) candidates() []candidate {
	var all []candidate
	var unusable skipped
	for _, slice := range b.view.Slices(b.service.Namespace, b.service.Name) {
		if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 {
			unusable.add(slice, "has addresses of type "+string(slice.AddressType)+", and only IPv4 and IPv6 are used")
			continue
		}
		port := slicePort(slice, b.port.Name, b.network)
		switch {
		case port == nil:
			continue
		case port.Port == nil:
			unusable.add(slice, "has no number for the port, which a request cannot be sent to: give the number")
			continue
		case *port.Port < 1 || *port.Port > 65535:
			unusable.add(slice, fmt.Sprintf("has the port %d: give one from 1 to 65535", *port.Port))
			continue
		}
		all = slices.Grow(all, len(slice.Endpoints))
		for i := range slice.Endpoints {
			if c, ok := read(&slice.Endpoints[i], slice.AddressType, uint16(*port.Port)); ok {
				c.position = len(all)
				all = append(all, c)
			}
		}
	}
	if fault := unusable.fault(); fault != nil {
		b.refuse(fault)
	}
	// Endpoints that move between slices are in two for a moment. The better
	// one counts, and of equal ones that of the first slice.
	slices.SortFunc(all, func(a, b candidate) int {
		if order := a.at.Compare(b.at); order != 0 {
			return order
		}
		return cmp.Or(int(b.readiness)-int(a.readiness), a.position-b.position)
	})
	all = slices.CompactFunc(all, func(a, b candidate) bool { return a.at == b.at })
	return oncePerOwner(all, b.wantsIPv6())
}

// slicePort returns the port of a name.
func slicePort(slice *snapshot.Slice, name string, network corev1.Protocol) *discoveryv1.EndpointPort {
	for i := range slice.Ports {
		port := &slice.Ports[i]
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = cmp.Or(*port.Protocol, protocol)
		}
		if text(port.Name) == name && protocol == network {
			return port
		}
	}
	return nil
}

// read parses an endpoint of a slice. Only the first address counts: the API defines
// the others as equivalent.
func read(endpoint *discoveryv1.Endpoint, family discoveryv1.AddressType, port uint16) (candidate, bool) {
	if len(endpoint.Addresses) == 0 {
		return candidate{}, false
	}
	address, err := netip.ParseAddr(endpoint.Addresses[0])
	if err != nil || address.Is4() != (family == discoveryv1.AddressTypeIPv4) || !routable(address) {
		return candidate{}, false
	}
	c := candidate{
		at: netip.AddrPortFrom(address, port), readiness: readinessOf(endpoint.Conditions),
		owner: ownerOf(endpoint), node: text(endpoint.NodeName), zone: zoneName(text(endpoint.Zone)),
	}
	if endpoint.Hints != nil {
		c.hints = endpoint.Hints.ForZones
	}
	if target := endpoint.TargetRef; target != nil && target.Kind == string(snapshot.Pod) {
		c.pod, c.podUID = target.Name, target.UID
	}
	return c, true
}

// routable reports whether a connection to the address can lead to a Pod or a
// node. The API server lets neither loopback nor link-local addresses into a
// slice; loopback is left to it, for programs that have no API server.
func routable(address netip.Addr) bool {
	return address.Zone() == "" && !address.Is4In6() && !address.IsUnspecified() &&
		!address.IsMulticast() && !address.IsLinkLocalUnicast() && address != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// oncePerOwner keeps one IP family per Pod: the wanted one, or the other if only
// that is usable. A dual-stack Pod would otherwise get twice its share.
func oncePerOwner(all []candidate, ipv6 bool) []candidate {
	if len(all) == 0 || all[0].at.Addr().Is4() == all[len(all)-1].at.Addr().Is4() {
		return all // sorted, so all are of one family
	}
	// For each owner: is it there in the wanted family, and is it usable in
	// either.
	type presence struct{ wanted, usable, otherUsable bool }
	owners := make(map[owner]presence, len(all)/2)
	for i := range all {
		c := &all[i]
		p := owners[c.owner]
		if c.at.Addr().Is6() == ipv6 {
			p.wanted = true
			p.usable = p.usable || c.readiness != out
		} else {
			p.otherUsable = p.otherUsable || c.readiness != out
		}
		owners[c.owner] = p
	}
	return slices.DeleteFunc(all, func(c candidate) bool {
		if c.owner == (owner{}) {
			return false
		}
		p := owners[c.owner]
		other := p.wanted && !p.usable && p.otherUsable || !p.wanted
		return (c.at.Addr().Is6() == ipv6) == other
	})
}

// wantsIPv6 reports whether IPv6 is the Service's first IP family.
func (b *builder) wantsIPv6() bool {
	if families := b.service.Spec.IPFamilies; len(families) > 0 {
		return families[0] == corev1.IPv6Protocol
	}
	address, err := netip.ParseAddr(b.service.Spec.ClusterIP)
	return err == nil && address.Is6()
}

// skipped collects unusable slices for one refusal.
type skipped struct {
	count int
	name  string
	why   string
}

func (s *skipped) add(slice *snapshot.Slice, why string) {
	s.count++
	if s.count == 1 {
		s.name, s.why = slice.Name, why
	}
}

func (s *skipped) fault() *refusal.Refusal {
	if s.count == 0 {
		return nil
	}
	message := fmt.Sprintf("the EndpointSlice %s %s", s.name, s.why)
	if s.count > 1 {
		message += fmt.Sprintf("; so it is with %d more", s.count-1)
	}
	return &refusal.Refusal{Reason: refusal.Unsupported, Message: message}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// zoneName returns a zone, or an empty string for one that is not a valid label
// value.
func zoneName(zone string) string {
	letters := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	if len(zone) > 63 || strings.ContainsFunc(zone, letters) {
		return ""
	}
	return zone
}
