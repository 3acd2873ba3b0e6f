package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// reasonAllocated is the reason of the condition with the target ports.
const reasonAllocated = "Allocated"

// Targets assigns target ports of the edge's Pods to the ports of Gateways, in a cluster
// where each Gateway has a Service. The assignment is in a condition of the Gateway: the
// leader writes it, and every replica listens only on ports that it has read there, so
// that all of them agree and it survives restarts. Only writers of gateways/status can
// change it; the Service itself, which tenants may write, is not read for that.
//
// A target that two Gateways have, because two leaders wrote at the same time, is that of
// the older one. The other one gets another.
type Targets struct {
	Options resolve.GatewayOptions

	owners    map[uint16]targetClaim
	byGateway map[snapshot.Ref]map[route.ListenerID]uint16
	// next is where the search for a free target begins: one that became free is not
	// used again at once, while clients may still be connected.
	next uint16
}

// targetClaim is the claim of a Gateway to a target.
type targetClaim struct {
	id      route.ListenerID
	created time.Time
	// read is set if the Gateway has the target in its status; otherwise it is only
	// proposed, and not listened on.
	read bool
}

// precedes reports whether a claim is stronger than another one of another Gateway.
func (c targetClaim) precedes(other targetClaim) bool {
	if c.read != other.read {
		return c.read
	}
	return cmp.Or(c.created.Compare(other.created), c.id.Compare(other.id)) < 0
}

// gateway returns the Gateway of a claim.
func (c targetClaim) gateway() snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.Gateway, Namespace: c.id.Namespace, Name: c.id.Name}
}

// Release frees the targets of a Gateway.
func (t *Targets) Release(ref snapshot.Ref) {
	for _, target := range t.byGateway[ref] {
		delete(t.owners, target)
	}
	delete(t.byGateway, ref)
}

// Assign returns the targets of a Gateway, and the Gateways that lost one to it: these
// have to be assigned again.
func (t *Targets) Assign(view *snapshot.View, gateway *gatewayv1.Gateway) (Assignment, []snapshot.Ref) {
	ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: gateway.Namespace, Name: gateway.Name}
	requested, assignment := requestedAddress(gateway)
	if assignment.Reason == "" && requested.IsValid() && t.Options.ServiceType != serviceLoadBalancer {
		assignment = Assignment{Reason: gatewayv1.GatewayReasonAddressNotUsable, Message: fmt.Sprintf(
			"spec.addresses: a Service of type %s cannot have the address %s: remove it", t.Options.ServiceType, requested)}
	}
	if assignment.Reason != "" {
		t.Release(ref)
		return assignment, nil
	}
	wanted := portsOf(view, gateway)
	lost := t.claim(ref, gateway, wanted)
	assignment = Assignment{Address: netip.IPv4Unspecified(), Targets: map[route.ListenerID]uint16{}}
	for _, id := range wanted {
		problem := ""
		if _, has := t.byGateway[ref][id]; !has {
			problem = t.propose(ref, gateway, id)
		}
		switch target, has := t.byGateway[ref][id]; {
		case !has:
			assignment.Reason, assignment.Message = gatewayv1.GatewayReasonNoResources, problem
		case t.owners[target].read:
			assignment.Targets[id] = target
		case assignment.Reason == "":
			assignment.Reason, assignment.Message = gatewayv1.GatewayReasonPending, "the target ports are being assigned"
		}
	}
	assignment.allocated = formatTargets(t.byGateway[ref])
	assignment.addService(view, gateway, t.Options, requested)
	return assignment, lost
}

// claim frees the targets of ports that the Gateway does not have any more, takes those of
// its status, and returns the Gateways that lost one.
func (t *Targets) claim(ref snapshot.Ref, gateway *gatewayv1.Gateway, wanted []route.ListenerID) []snapshot.Ref {
	for id, target := range t.byGateway[ref] {
		if !slices.Contains(wanted, id) {
			t.free(target)
		}
	}
	read := parseTargets(ref, snapshot.TargetPorts(gateway))
	var lost []snapshot.Ref
	for _, id := range wanted {
		target, has := read[id]
		if !has || target < t.Options.FirstTarget || target > t.Options.LastTarget {
			continue
		}
		claim := targetClaim{id: id, created: gateway.CreationTimestamp.Time, read: true}
		if owner, taken := t.owners[target]; taken && owner.id != id {
			if !claim.precedes(owner) {
				continue
			}
			lost = append(lost, owner.gateway())
		}
		t.take(ref, target, claim)
		t.next = max(t.next, target+1) // after a restart, too
	}
	return lost
}

// propose takes a free target for a port, and returns why there is none.
func (t *Targets) propose(ref snapshot.Ref, gateway *gatewayv1.Gateway, id route.ListenerID) string {
	used := 0
	for of, targets := range t.byGateway {
		if of.Namespace == ref.Namespace {
			used += len(targets)
		}
	}
	if limit := t.Options.TargetsPerNamespace; limit > 0 && used >= limit {
		return fmt.Sprintf("the Gateways of the namespace have %d ports, which is the limit of providers.kubernetesGateway.targetPortsPerNamespace", used)
	}
	size := int(t.Options.LastTarget-t.Options.FirstTarget) + 1
	for range size {
		if t.next < t.Options.FirstTarget || t.next > t.Options.LastTarget {
			t.next = t.Options.FirstTarget
		}
		target := t.next
		t.next++ // after the largest port it is 0, which is not in the range
		if _, taken := t.owners[target]; !taken {
			t.take(ref, target, targetClaim{id: id, created: gateway.CreationTimestamp.Time})
			return ""
		}
	}
	return "no target port is free: extend providers.kubernetesGateway.targetPorts"
}

// take gives a target to a port, which frees the one that it had.
func (t *Targets) take(ref snapshot.Ref, target uint16, claim targetClaim) {
	if t.owners == nil {
		t.owners, t.byGateway = map[uint16]targetClaim{}, map[snapshot.Ref]map[route.ListenerID]uint16{}
	}
	t.free(target)
	if before, has := t.byGateway[ref][claim.id]; has {
		t.free(before)
	}
	if t.byGateway[ref] == nil {
		t.byGateway[ref] = map[route.ListenerID]uint16{}
	}
	t.owners[target], t.byGateway[ref][claim.id] = claim, target
}

// free takes a target from its owner, if it has one.
func (t *Targets) free(target uint16) {
	owner, taken := t.owners[target]
	if !taken {
		return
	}
	delete(t.owners, target)
	delete(t.byGateway[owner.gateway()], owner.id)
}

// portsOf returns the ports of a Gateway to which traffic can come, sorted.
func portsOf(view *snapshot.View, gateway *gatewayv1.Gateway) []route.ListenerID {
	ports := map[route.ListenerID]bool{}
	listeners := listenersOf(view, gateway)
	for i := range listeners {
		if listeners[i].usable() {
			ports[listenerID(gateway, &listeners[i])] = true
		}
	}
	return slices.SortedFunc(maps.Keys(ports), route.ListenerID.Compare)
}

// formatTargets returns targets as the text of the condition, such as "53/udp=20001 80=20000".
func formatTargets(targets map[route.ListenerID]uint16) string {
	var parts []string
	for _, id := range slices.SortedFunc(maps.Keys(targets), route.ListenerID.Compare) {
		port := strconv.Itoa(int(id.Port))
		if id.UDP {
			port += udpSuffix
		}
		parts = append(parts, port+"="+strconv.Itoa(int(targets[id])))
	}
	return strings.Join(parts, " ")
}

// udpSuffix marks a port of UDP.
const udpSuffix = "/udp"

// parseTargets reads the text of the condition. Parts that cannot be read are left out.
func parseTargets(ref snapshot.Ref, text string) map[route.ListenerID]uint16 {
	targets := map[route.ListenerID]uint16{}
	for part := range strings.FieldsSeq(text) {
		from, to, _ := strings.Cut(part, "=")
		from, udp := strings.CutSuffix(from, udpSuffix)
		port, err := strconv.ParseUint(from, 10, 16)
		target, problem := strconv.ParseUint(to, 10, 16)
		if err == nil && problem == nil && port > 0 && target > 0 {
			targets[route.ListenerID{Namespace: ref.Namespace, Name: ref.Name, Port: uint16(port), UDP: udp}] = uint16(target)
		}
	}
	return targets
}

// condition returns the condition with the target ports. Its message has no bound but
// that of the number of ports.
func (a *Assignment) condition() metav1.Condition {
	return metav1.Condition{Type: snapshot.TargetPortsCondition, Status: metav1.ConditionTrue, Reason: reasonAllocated, Message: a.allocated}
}

// at returns where the edge listens for a port; not valid if it does not.
func (a *Assignment) at(id route.ListenerID) netip.AddrPort {
	port := id.Port
	if a.Targets != nil {
		port = a.Targets[id]
	}
	if !a.Address.IsValid() || port == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Address, port)
}
