package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The kinds of Gateway API. A cluster may not have them, and an edge that is not
// asked for them does not read them.
const (
	GatewayClass Kind = "GatewayClass." + gatewayv1.GroupName
	Gateway      Kind = "Gateway." + gatewayv1.GroupName
	HTTPRoute    Kind = "HTTPRoute." + gatewayv1.GroupName
	GRPCRoute    Kind = "GRPCRoute." + gatewayv1.GroupName
	TLSRoute     Kind = "TLSRoute." + gatewayv1.GroupName
	TCPRoute     Kind = "TCPRoute." + gatewayv1.GroupName
	UDPRoute     Kind = "UDPRoute." + gatewayv1.GroupName
	ListenerSet  Kind = "ListenerSet." + gatewayv1.GroupName
	// ListenerSets stands for all ListenerSets of a Gateway, under its name. It is no
	// kind of the cluster.
	ListenerSets Kind = "ListenerSets"
	// BackendTLSPolicy stands for all policies of a namespace, without a name.
	BackendTLSPolicy Kind = "BackendTLSPolicy." + gatewayv1.GroupName
	// ReferenceGrant stands for all grants of a namespace, without a name.
	ReferenceGrant Kind = "ReferenceGrant." + gatewayv1.GroupName
	// Namespace has the labels that listeners select namespaces by.
	Namespace Kind = "Namespace"
)

// GatewayKinds returns the kinds of Gateway API that are read.
func GatewayKinds() []Kind {
	return []Kind{GatewayClass, Gateway, ListenerSet, HTTPRoute, GRPCRoute, TLSRoute, TCPRoute, UDPRoute, BackendTLSPolicy, ReferenceGrant}
}

// GatewayResource returns the name of the resource of a kind of Gateway API.
func GatewayResource(kind Kind) string {
	name := strings.ToLower(strings.TrimSuffix(string(kind), "."+gatewayv1.GroupName))
	if stem, ends := strings.CutSuffix(name, "policy"); ends {
		return stem + "policies"
	}
	if strings.HasSuffix(name, "s") {
		return name + "es"
	}
	return name + "s"
}

// NewGatewayObject returns an empty object of a kind of Gateway API, nil for others.
func NewGatewayObject(kind Kind) GatewayObject {
	switch kind {
	case GatewayClass:
		return &gatewayv1.GatewayClass{}
	case Gateway:
		return &gatewayv1.Gateway{}
	case ListenerSet:
		return &gatewayv1.ListenerSet{}
	case HTTPRoute:
		return &gatewayv1.HTTPRoute{}
	case GRPCRoute:
		return &gatewayv1.GRPCRoute{}
	case TLSRoute:
		return &gatewayv1.TLSRoute{}
	case TCPRoute:
		return &gatewayv1.TCPRoute{}
	case UDPRoute:
		return &gatewayv1.UDPRoute{}
	case BackendTLSPolicy:
		return &gatewayv1.BackendTLSPolicy{}
	case ReferenceGrant:
		return &gatewayv1.ReferenceGrant{}
	default:
		return nil
	}
}

// GatewayObject is an object of Gateway API, of one of the types that NewGatewayObject
// returns.
type GatewayObject interface{ metav1.Object }

// kindOfGateway returns the kind of an object of Gateway API.
func kindOfGateway(object any) (Kind, bool) {
	switch object.(type) {
	case *gatewayv1.GatewayClass:
		return GatewayClass, true
	case *gatewayv1.Gateway:
		return Gateway, true
	case *gatewayv1.ListenerSet:
		return ListenerSet, true
	case *gatewayv1.HTTPRoute:
		return HTTPRoute, true
	case *gatewayv1.GRPCRoute:
		return GRPCRoute, true
	case *gatewayv1.TLSRoute:
		return TLSRoute, true
	case *gatewayv1.TCPRoute:
		return TCPRoute, true
	case *gatewayv1.UDPRoute:
		return UDPRoute, true
	case *gatewayv1.BackendTLSPolicy:
		return BackendTLSPolicy, true
	case *gatewayv1.ReferenceGrant:
		return ReferenceGrant, true
	}
	return "", false
}

// GatewayRef returns the reference of an object of Gateway API that has a status, and
// whether it is one.
func GatewayRef(object any) (Ref, bool) {
	kind, known := kindOfGateway(object)
	if !known || kind == ReferenceGrant {
		return Ref{}, false
	}
	of := object.(GatewayObject)
	return Ref{kind, of.GetNamespace(), of.GetName()}, true
}

// putGateway stores an object of Gateway API. The generation changes with the spec
// and with nothing else, so that a new status costs no more than a comparison.
func (s *Snapshot) putGateway(kind Kind, object GatewayObject) []Ref {
	at := Ref{kind, object.GetNamespace(), object.GetName()}
	before := s.gateways[at]
	s.gateways[at] = object
	if grant, ok := object.(*gatewayv1.ReferenceGrant); ok {
		if s.grants[at.Namespace] == nil {
			s.grants[at.Namespace] = map[string]*gatewayv1.ReferenceGrant{}
		}
		s.grants[at.Namespace][at.Name] = grant
	}
	if policy, ok := object.(*gatewayv1.BackendTLSPolicy); ok {
		if s.policies[at.Namespace] == nil {
			s.policies[at.Namespace] = map[string]*gatewayv1.BackendTLSPolicy{}
		}
		s.policies[at.Namespace][at.Name] = policy
	}
	same := before != nil && before.GetUID() == object.GetUID() && before.GetGeneration() == object.GetGeneration() &&
		sameAnnotations(before.GetAnnotations(), object.GetAnnotations()) && targetPorts(before) == targetPorts(object)
	if set, ok := object.(*gatewayv1.ListenerSet); ok && !same {
		previous, _ := before.(*gatewayv1.ListenerSet)
		return append(s.moveListenerSet(previous, set), at)
	}
	return changed(!same, readAs(at))
}

// TargetPortsCondition is the type of the condition that has the target ports of a Gateway
// in its message.
const TargetPortsCondition = "slipway.dev/TargetPorts"

// TargetPorts returns the message of the condition TargetPorts of a Gateway. It is the one
// part of a status that the routing table depends on.
func TargetPorts(gateway *gatewayv1.Gateway) string {
	for i := range gateway.Status.Conditions {
		if of := &gateway.Status.Conditions[i]; of.Type == TargetPortsCondition {
			return of.Message
		}
	}
	return ""
}

// targetPorts is TargetPorts of a Gateway, and empty for other kinds.
func targetPorts(object GatewayObject) string {
	if gateway, ok := object.(*gatewayv1.Gateway); ok {
		return TargetPorts(gateway)
	}
	return ""
}

// moveListenerSet changes the ListenerSets of the Gateways that one leaves and comes to,
// nil for neither, and returns those.
func (s *Snapshot) moveListenerSet(before, after *gatewayv1.ListenerSet) []Ref {
	var refs []Ref
	if before != nil {
		from := ParentOf(before)
		s.listenerSets[from] = slices.DeleteFunc(slices.Clone(s.listenerSets[from]), func(set *gatewayv1.ListenerSet) bool {
			return set.Namespace == before.Namespace && set.Name == before.Name
		})
		refs = append(refs, Ref{ListenerSets, from.Namespace, from.Name})
	}
	if after != nil {
		to := ParentOf(after)
		s.listenerSets[to] = append(slices.Clone(s.listenerSets[to]), after)
		refs = append(refs, Ref{ListenerSets, to.Namespace, to.Name})
	}
	return refs
}

// ParentOf returns the Gateway of a ListenerSet; a zero Ref if it names another kind.
func ParentOf(set *gatewayv1.ListenerSet) Ref {
	parent := &set.Spec.ParentRef
	if parent.Group != nil && *parent.Group != gatewayv1.GroupName || parent.Kind != nil && *parent.Kind != "Gateway" {
		return Ref{}
	}
	namespace := set.Namespace
	if parent.Namespace != nil {
		namespace = string(*parent.Namespace)
	}
	return Ref{Gateway, namespace, string(parent.Name)}
}

// deleteGateway removes an object of Gateway API.
func (s *Snapshot) deleteGateway(ref Ref) []Ref {
	switch ref.Kind {
	case ReferenceGrant:
		delete(s.grants[ref.Namespace], ref.Name)
	case BackendTLSPolicy:
		delete(s.policies[ref.Namespace], ref.Name)
	case ListenerSet:
		if set, ok := s.gateways[ref].(*gatewayv1.ListenerSet); ok {
			return append(s.moveListenerSet(set, nil), remove(s.gateways, ref, ref)...)
		}
	}
	return remove(s.gateways, ref, readAs(ref))
}

// readAs returns the reference under which an object is read.
func readAs(ref Ref) Ref {
	if ref.Kind == ReferenceGrant || ref.Kind == BackendTLSPolicy {
		ref.Name = ""
	}
	return ref
}

// IsGatewayRoute reports whether a kind is a route of Gateway API.
func IsGatewayRoute(kind Kind) bool {
	return kind == HTTPRoute || kind == GRPCRoute || IsStreamRoute(kind)
}

// IsStreamRoute reports whether a kind is a route of Gateway API for connections, and
// not for requests.
func IsStreamRoute(kind Kind) bool { return kind == TLSRoute || kind == TCPRoute || kind == UDPRoute }

// gatewayKind reports whether a kind is of Gateway API.
func gatewayKind(kind Kind) bool { return strings.HasSuffix(string(kind), "."+gatewayv1.GroupName) }

// GatewayObject returns an object of Gateway API without recording the read, for
// uses that are not resolved from it, such as its status; nil if it does not exist.
func (s *Snapshot) GatewayObject(ref Ref) GatewayObject { return s.gateways[ref] }

// gatewayObject returns an object and records the read.
func gatewayObject[T any](v *View, ref Ref) *T {
	v.note(ref)
	object, _ := any(v.snapshot.gateways[ref]).(*T)
	return object
}

// GatewayClass returns a GatewayClass, nil if it does not exist.
func (v *View) GatewayClass(name string) *gatewayv1.GatewayClass {
	return gatewayObject[gatewayv1.GatewayClass](v, Ref{Kind: GatewayClass, Name: name})
}

// Gateway returns a Gateway, nil if it does not exist.
func (v *View) Gateway(namespace, name string) *gatewayv1.Gateway {
	return gatewayObject[gatewayv1.Gateway](v, Ref{Gateway, namespace, name})
}

// ListenerSet returns a ListenerSet, nil if it does not exist.
func (v *View) ListenerSet(namespace, name string) *gatewayv1.ListenerSet {
	return gatewayObject[gatewayv1.ListenerSet](v, Ref{ListenerSet, namespace, name})
}

// ListenerSets returns the ListenerSets that name a Gateway, the oldest first.
func (v *View) ListenerSets(namespace, name string) []*gatewayv1.ListenerSet {
	v.note(Ref{ListenerSets, namespace, name})
	return slices.SortedFunc(slices.Values(v.snapshot.listenerSets[Ref{Gateway, namespace, name}]), func(a, b *gatewayv1.ListenerSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// HTTPRoute returns an HTTPRoute, nil if it does not exist.
func (v *View) HTTPRoute(namespace, name string) *gatewayv1.HTTPRoute {
	return gatewayObject[gatewayv1.HTTPRoute](v, Ref{HTTPRoute, namespace, name})
}

// GRPCRoute returns a GRPCRoute, nil if it does not exist.
func (v *View) GRPCRoute(namespace, name string) *gatewayv1.GRPCRoute {
	return gatewayObject[gatewayv1.GRPCRoute](v, Ref{GRPCRoute, namespace, name})
}

// TLSRoute returns a TLSRoute, nil if it does not exist.
func (v *View) TLSRoute(namespace, name string) *gatewayv1.TLSRoute {
	return gatewayObject[gatewayv1.TLSRoute](v, Ref{TLSRoute, namespace, name})
}

// TCPRoute returns a TCPRoute, nil if it does not exist.
func (v *View) TCPRoute(namespace, name string) *gatewayv1.TCPRoute {
	return gatewayObject[gatewayv1.TCPRoute](v, Ref{TCPRoute, namespace, name})
}

// UDPRoute returns a UDPRoute, nil if it does not exist.
func (v *View) UDPRoute(namespace, name string) *gatewayv1.UDPRoute {
	return gatewayObject[gatewayv1.UDPRoute](v, Ref{UDPRoute, namespace, name})
}

// ReferenceGrants returns the grants of a namespace, sorted by name.
func (v *View) ReferenceGrants(namespace string) []*gatewayv1.ReferenceGrant {
	v.note(Ref{Kind: ReferenceGrant, Namespace: namespace})
	return slices.SortedFunc(maps.Values(v.snapshot.grants[namespace]), func(a, b *gatewayv1.ReferenceGrant) int { return strings.Compare(a.Name, b.Name) })
}

// BackendTLSPolicies returns the policies of a namespace, the oldest first.
func (v *View) BackendTLSPolicies(namespace string) []*gatewayv1.BackendTLSPolicy {
	v.note(Ref{Kind: BackendTLSPolicy, Namespace: namespace})
	return slices.SortedFunc(maps.Values(v.snapshot.policies[namespace]), func(a, b *gatewayv1.BackendTLSPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// NamespaceLabels returns the labels of a namespace, none if it does not exist.
func (v *View) NamespaceLabels(name string) map[string]string {
	v.note(Ref{Kind: Namespace, Name: name})
	if object := v.snapshot.namespaces[name]; object != nil {
		return object.Labels
	}
	return nil
}

// putNamespace stores a namespace, of which only the labels count.
func (s *Snapshot) putNamespace(object *corev1.Namespace) []Ref {
	before := s.namespaces[object.Name]
	s.namespaces[object.Name] = object
	return changed(before == nil || !maps.Equal(before.Labels, object.Labels), Ref{Kind: Namespace, Name: object.Name})
}
