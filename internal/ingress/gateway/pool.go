package gateway

import (
	"fmt"
	"maps"
	"net/netip"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// maxPool bounds the addresses that are tried for one Gateway.
const maxPool = 1 << 16

// Pool assigns addresses of this machine to Gateways. It is for one replica: in a
// cluster the addresses are those of Services. The address of a Gateway stays over a
// restart: by the record of the edge, or else by the status of the Gateway.
type Pool struct {
	prefixes     []netip.Prefix
	perNamespace int

	byGateway map[snapshot.Ref]netip.Addr
	owners    map[netip.Addr]snapshot.Ref
	// counts are the addresses of each namespace.
	counts map[string]int
	freed  bool
	// served are the addresses that the edge recorded before a restart, and recorded the
	// Gateways that they are kept for. A record wins over statuses and ages: a tenant that
	// may write the status of its Gateway could name the address of another one there.
	served   map[snapshot.Ref]netip.Addr
	recorded map[netip.Addr]snapshot.Ref
	exists   func(snapshot.Ref) bool
}

// NewPool returns a pool. exists reports whether a Gateway exists: a record of one that was
// deleted during a restart does not count.
func NewPool(options resolve.GatewayOptions, exists func(snapshot.Ref) bool) *Pool {
	p := &Pool{
		prefixes: options.Addresses, perNamespace: options.AddressesPerNamespace, exists: exists,
		byGateway: map[snapshot.Ref]netip.Addr{}, owners: map[netip.Addr]snapshot.Ref{}, counts: map[string]int{},
		served: maps.Clone(options.Served), recorded: map[netip.Addr]snapshot.Ref{},
	}
	for ref, address := range p.served {
		p.recorded[address] = ref
	}
	return p
}

// Release frees the address of a Gateway, and the one that was recorded for it.
func (p *Pool) Release(ref snapshot.Ref) {
	if address, kept := p.served[ref]; kept {
		delete(p.served, ref)
		delete(p.recorded, address)
		p.freed = true
	}
	address, assigned := p.byGateway[ref]
	if !assigned {
		return
	}
	delete(p.owners, address)
	delete(p.byGateway, ref)
	p.counts[ref.Namespace]--
	p.freed = true
}

// Freed reports whether an address was freed since the last call, so that a Gateway
// that waits for one may get it.
func (p *Pool) Freed() bool {
	freed := p.freed
	p.freed = false
	return freed
}

// Assign returns the address of a Gateway: the one that it asks for, the one that it
// has or had before a restart, or the first that is free.
func (p *Pool) Assign(gateway *gatewayv1.Gateway) Assignment {
	ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: gateway.Namespace, Name: gateway.Name}
	requested, assignment := requestedAddress(gateway)
	if assignment.Reason != "" {
		p.Release(ref)
		return assignment
	}
	has, assigned := p.byGateway[ref]
	switch {
	case requested.IsValid() && !p.usable(ref, requested):
		p.Release(ref)
		return Assignment{Reason: gatewayv1.GatewayReasonAddressNotUsable, Message: fmt.Sprintf(
			"the address %s is not in providers.kubernetesGateway.addresses, or another Gateway has it", requested)}
	case assigned && (!requested.IsValid() || requested == has):
		return Assignment{Address: has}
	case !assigned && p.perNamespace > 0 && p.counts[ref.Namespace] >= p.perNamespace:
		return Assignment{Reason: gatewayv1.GatewayReasonAddressNotAssigned, Message: fmt.Sprintf(
			"the Gateways of the namespace %s have %d addresses, which is the limit of providers.kubernetesGateway.addressesPerNamespace", ref.Namespace, p.perNamespace)}
	case requested.IsValid():
		return p.take(ref, requested)
	}
	if before, kept := p.served[ref]; kept && p.usable(ref, before) {
		return p.take(ref, before)
	}
	for _, address := range gateway.Status.Addresses {
		if before, err := netip.ParseAddr(address.Value); err == nil && p.usable(ref, before) {
			return p.take(ref, before)
		}
	}
	tried := 0
	for _, prefix := range p.prefixes {
		for address := prefix.Masked().Addr(); prefix.Contains(address) && tried < maxPool; address = address.Next() {
			tried++
			if p.usable(ref, address) {
				return p.take(ref, address)
			}
		}
	}
	return Assignment{Reason: gatewayv1.GatewayReasonAddressNotAssigned, Message: "no address is free: add some to providers.kubernetesGateway.addresses"}
}

// requestedAddress returns the address that a Gateway asks for, if any. The
// assignment has a reason if no address can be assigned at all.
func requestedAddress(gateway *gatewayv1.Gateway) (netip.Addr, Assignment) {
	if of := gateway.Spec.Infrastructure; of != nil && of.ParametersRef != nil {
		return netip.Addr{}, Assignment{
			Reason: gatewayv1.GatewayReasonInvalidParameters, Message: "spec.infrastructure.parametersRef: Gateways of this class have no parameters: remove it",
		}
	}
	var requested netip.Addr
	for _, wanted := range gateway.Spec.Addresses {
		address, err := netip.ParseAddr(wanted.Value)
		if or(wanted.Type, gatewayv1.IPAddressType) != gatewayv1.IPAddressType || err != nil && wanted.Value != "" {
			return netip.Addr{}, Assignment{
				Reason:  gatewayv1.GatewayReasonUnsupportedAddress,
				Message: fmt.Sprintf("spec.addresses: %q of type %s is not supported: use an address of type IPAddress", wanted.Value, or(wanted.Type, gatewayv1.IPAddressType)),
			}
		}
		requested = address
	}
	if len(gateway.Spec.Addresses) > 1 {
		return netip.Addr{}, Assignment{Reason: gatewayv1.GatewayReasonAddressNotUsable, Message: "spec.addresses: a Gateway has one address: remove the others"}
	}
	return requested, Assignment{}
}

// usable reports whether a Gateway can have an address.
func (p *Pool) usable(ref snapshot.Ref, address netip.Addr) bool {
	owner, taken := p.owners[address]
	if taken && owner != ref {
		return false
	}
	if kept, recorded := p.recorded[address]; recorded && kept != ref && p.exists(kept) {
		return false
	}
	for _, prefix := range p.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// take assigns an address.
func (p *Pool) take(ref snapshot.Ref, address netip.Addr) Assignment {
	p.Release(ref)
	p.byGateway[ref], p.owners[address] = address, ref
	p.counts[ref.Namespace]++
	return Assignment{Address: address}
}
