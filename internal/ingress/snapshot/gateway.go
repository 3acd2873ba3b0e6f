package snapshot

import (
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
	// ReferenceGrant stands for all grants of a namespace, without a name.
	ReferenceGrant Kind = "ReferenceGrant." + gatewayv1.GroupName
	// Namespace has the labels that listeners select namespaces by.
	Namespace Kind = "Namespace"
)

// GatewayKinds returns the kinds of Gateway API that are read.
func GatewayKinds() []Kind {
	return []Kind{GatewayClass, Gateway, HTTPRoute, GRPCRoute, ReferenceGrant}
}

// GatewayObject is an object of Gateway API: *gatewayv1.GatewayClass,
// *gatewayv1.Gateway, *gatewayv1.HTTPRoute, *gatewayv1.GRPCRoute or
// *gatewayv1.ReferenceGrant.
type GatewayObject interface{ metav1.Object }

// kindOfGateway returns the kind of an object of Gateway API.
func kindOfGateway(object any) (Kind, bool) {
	switch object.(type) {
	case *gatewayv1.GatewayClass:
		return GatewayClass, true
	case *gatewayv1.Gateway:
		return Gateway, true
	case *gatewayv1.HTTPRoute:
		return HTTPRoute, true
	case *gatewayv1.GRPCRoute:
		return GRPCRoute, true
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
	same := before != nil && before.GetUID() == object.GetUID() && before.GetGeneration() == object.GetGeneration() &&
		sameAnnotations(before.GetAnnotations(), object.GetAnnotations())
	return changed(!same, readAs(at))
}

// deleteGateway removes an object of Gateway API.
func (s *Snapshot) deleteGateway(ref Ref) []Ref {
	if ref.Kind == ReferenceGrant {
		delete(s.grants[ref.Namespace], ref.Name)
	}
	return remove(s.gateways, ref, readAs(ref))
}

// readAs returns the reference under which an object is read.
func readAs(ref Ref) Ref {
	if ref.Kind == ReferenceGrant {
		ref.Name = ""
	}
	return ref
}

// IsGatewayRoute reports whether a kind is a route of Gateway API.
func IsGatewayRoute(kind Kind) bool { return kind == HTTPRoute || kind == GRPCRoute }

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

// HTTPRoute returns an HTTPRoute, nil if it does not exist.
func (v *View) HTTPRoute(namespace, name string) *gatewayv1.HTTPRoute {
	return gatewayObject[gatewayv1.HTTPRoute](v, Ref{HTTPRoute, namespace, name})
}

// GRPCRoute returns a GRPCRoute, nil if it does not exist.
func (v *View) GRPCRoute(namespace, name string) *gatewayv1.GRPCRoute {
	return gatewayObject[gatewayv1.GRPCRoute](v, Ref{GRPCRoute, namespace, name})
}

// ReferenceGrants returns the grants of a namespace, sorted by name.
func (v *View) ReferenceGrants(namespace string) []*gatewayv1.ReferenceGrant {
	v.note(Ref{Kind: ReferenceGrant, Namespace: namespace})
	return slices.SortedFunc(maps.Values(v.snapshot.grants[namespace]), func(a, b *gatewayv1.ReferenceGrant) int { return strings.Compare(a.Name, b.Name) })
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
