package snapshot

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// key is a namespace and a name.
type key struct{ namespace, name string }

// Snapshot has the objects of a cluster. It is not safe for concurrent use.
type Snapshot struct {
	ingresses map[key]*networkingv1.Ingress
	// ofHost has the Ingresses with rules for each host, as it is written.
	ofHost   map[string][]*networkingv1.Ingress
	classes  map[string]*networkingv1.IngressClass
	services map[key]*ServiceFacts
	slices   map[key]*Slice
	// ofService has the slices of each Service, by its name.
	ofService map[key][]*Slice
	// shared are ports that Services and slices share.
	shared    sharedPorts
	secrets   map[key]*SecretBody
	nodes     map[string]*NodeFacts
	resources map[Ref]*Resource
	kinds     map[Kind]KindState
	// gateways has the objects of Gateway API, and grants its ReferenceGrants by
	// namespace and name.
	gateways map[Ref]GatewayObject
	grants   map[string]map[string]*gatewayv1.ReferenceGrant
	policies map[string]map[string]*gatewayv1.BackendTLSPolicy // by namespace and name
	// listenerSets has the ListenerSets of each Gateway.
	listenerSets map[Ref][]*gatewayv1.ListenerSet
	namespaces   map[string]*corev1.Namespace
	// releases has the Releases by namespace and name, and owned and owners what their
	// endpoints are found by.
	releases map[string]map[string]*Resource
	owned    map[Ref]*Owned
	owners   map[string]KindState
}

// New gives an empty Snapshot.
func New() *Snapshot {
	return &Snapshot{
		ingresses: map[key]*networkingv1.Ingress{},
		ofHost:    map[string][]*networkingv1.Ingress{},
		classes:   map[string]*networkingv1.IngressClass{},
		services:  map[key]*ServiceFacts{},
		slices:    map[key]*Slice{},
		ofService: map[key][]*Slice{},
		secrets:   map[key]*SecretBody{},
		nodes:     map[string]*NodeFacts{},
		resources: map[Ref]*Resource{},
		kinds:     map[Kind]KindState{},
		gateways:  map[Ref]GatewayObject{}, grants: map[string]map[string]*gatewayv1.ReferenceGrant{},
		namespaces: map[string]*corev1.Namespace{}, policies: map[string]map[string]*gatewayv1.BackendTLSPolicy{},
		listenerSets: map[Ref][]*gatewayv1.ListenerSet{},
		releases:     map[string]map[string]*Resource{}, owned: map[Ref]*Owned{}, owners: map[string]KindState{},
	}
}

// Put stores an object in the place of the one before it. It returns what
// changed for readers; nothing, when nothing did that a route is made of.
func (s *Snapshot) Put(object any) []Ref {
	switch o := object.(type) {
	case *networkingv1.Ingress:
		at := key{o.Namespace, o.Name}
		before := s.ingresses[at]
		s.ingresses[at] = o
		hosts := s.indexHosts(before, o)
		if before != nil && sameIngress(before, o) {
			return nil
		}
		return append(hosts, Ref{Ingress, o.Namespace, o.Name})
	case *networkingv1.IngressClass:
		before := s.classes[o.Name]
		s.classes[o.Name] = o
		return changed(before == nil || !sameClass(before, o), Ref{IngressClass, "", o.Name})
	case *corev1.Service:
		return s.putService(factsOfService(o))
	case *ServiceFacts:
		return s.putService(o)
	case *discoveryv1.EndpointSlice:
		return s.putSlice(sliceOf(o))
	case *SecretBody:
		at := key{o.Namespace, o.Name}
		before := s.secrets[at]
		s.secrets[at] = o
		return changed(before == nil || !sameSecret(before, o), Ref{Secret, o.Namespace, o.Name})
	case *NodeFacts:
		before := s.nodes[o.Name]
		s.nodes[o.Name] = o
		return changed(before == nil || !reflect.DeepEqual(before, o), Ref{Kind: Node})
	case *Owned:
		return s.putOwned(o)
	case *OwnersState:
		return s.putOwnersState(o)
	case *Resource:
		if o.Kind == Release {
			return s.putRelease(o)
		}
		at := Ref{o.Kind, o.Namespace, o.Name}
		before := s.resources[at]
		s.resources[at] = o
		return changed(before == nil || !sameResource(before, o), at)
	case *corev1.Namespace:
		return s.putNamespace(o)
	case GatewayObject:
		if kind, known := kindOfGateway(o); known {
			return s.putGateway(kind, o)
		}
		panic(fmt.Sprintf("a Snapshot has no objects of type %T", object)) // as below
	default:
		panic(fmt.Sprintf("a Snapshot has no objects of type %T", object)) // internal error: the watcher delivers no other types
	}
}

// Delete removes an object, and returns what changed for readers. An EndpointSlice
// has its own name here, not that of its Service.
func (s *Snapshot) Delete(kind Kind, namespace, name string) []Ref {
	at := key{namespace, name}
	ref := Ref{kind, namespace, name}
	switch kind {
	case Ingress:
		hosts := s.indexHosts(s.ingresses[at], nil)
		return append(hosts, remove(s.ingresses, at, ref)...)
	case IngressClass:
		return remove(s.classes, name, Ref{Kind: kind, Name: name})
	case Service:
		return remove(s.services, at, ref)
	case EndpointSlice:
		slice := s.slices[at]
		if slice == nil {
			return nil
		}
		delete(s.slices, at)
		return s.unlink(slice)
	case Secret:
		return remove(s.secrets, at, ref)
	case Node:
		return remove(s.nodes, name, Ref{Kind: kind})
	case Namespace:
		return remove(s.namespaces, name, Ref{Kind: kind, Name: name})
	case Pod, ReplicaSet:
		return remove(s.owned, ref, ref)
	case Release:
		return s.deleteRelease(namespace, name)
	default:
		if gatewayKind(kind) {
			return s.deleteGateway(ref)
		}
		return remove(s.resources, ref, ref)
	}
}

// SetKind sets the state of a custom kind.
func (s *Snapshot) SetKind(kind Kind, state KindState) []Ref {
	before := s.kinds[kind]
	s.kinds[kind] = state
	return changed(before != state, Ref{Kind: kind})
}

// Names returns the namespace and name of every object of a kind, in no order.
// EndpointSlices have their own names.
func (s *Snapshot) Names(kind Kind) iter.Seq2[string, string] {
	return func(yield func(namespace, name string) bool) {
		switch kind {
		case Ingress:
			each(s.ingresses, yield)
		case IngressClass:
			eachName(s.classes, yield)
		case Service:
			each(s.services, yield)
		case EndpointSlice:
			each(s.slices, yield)
		case Secret:
			each(s.secrets, yield)
		case Node:
			eachName(s.nodes, yield)
		default:
			// An object of Gateway API is in one map, and one of another custom kind
			// in the other.
			for ref := range s.gateways {
				if ref.Kind == kind && !yield(ref.Namespace, ref.Name) {
					return
				}
			}
			for ref := range s.resources {
				if ref.Kind == kind && !yield(ref.Namespace, ref.Name) {
					return
				}
			}
		}
	}
}

// Ingress returns an Ingress without recording the read, for uses that are not
// resolved from it, such as its status; nil if it does not exist.
func (s *Snapshot) Ingress(namespace, name string) *networkingv1.Ingress {
	return s.ingresses[key{namespace, name}]
}

// Exists reports whether an Ingress or an object of a custom kind exists.
func (s *Snapshot) Exists(ref Ref) bool {
	if ref.Kind == Ingress {
		return s.ingresses[key{ref.Namespace, ref.Name}] != nil
	}
	return s.gateways[ref] != nil || s.resources[ref] != nil
}

// UID returns the UID of an object, empty if unknown.
func (s *Snapshot) UID(ref Ref) types.UID {
	at := key{ref.Namespace, ref.Name}
	switch ref.Kind {
	case Ingress:
		if object := s.ingresses[at]; object != nil {
			return object.UID
		}
	case Service:
		if object := s.services[at]; object != nil {
			return object.UID
		}
	case Secret:
		if object := s.secrets[at]; object != nil {
			return object.UID
		}
	case Release:
		if object := s.releases[ref.Namespace][ref.Name]; object != nil {
			return object.UID
		}
	default:
		if object := s.gateways[ref]; object != nil {
			return object.GetUID()
		}
		if object := s.resources[ref]; object != nil {
			return object.UID
		}
	}
	return ""
}

func changed(it bool, ref Ref) []Ref {
	if !it {
		return nil
	}
	return []Ref{ref}
}

func remove[K comparable, V any](from map[K]V, at K, ref Ref) []Ref {
	if _, there := from[at]; !there {
		return nil
	}
	delete(from, at)
	return []Ref{ref}
}

func each[V any](of map[key]V, yield func(namespace, name string) bool) {
	for at := range of {
		if !yield(at.namespace, at.name) {
			return
		}
	}
}

func eachName[V any](of map[string]V, yield func(namespace, name string) bool) {
	for name := range of {
		if !yield("", name) {
			return
		}
	}
}

// sameMeta compares the metadata that routes depend on: annotations and creation
// time. A new UID means that the object was replaced by another of its name.
func sameMeta(a, b *metav1.ObjectMeta) bool {
	return a.UID == b.UID && a.CreationTimestamp.Equal(&b.CreationTimestamp) && sameAnnotations(a.Annotations, b.Annotations)
}

// sameAnnotations ignores the annotations of other controllers, which may change
// often.
func sameAnnotations(a, b map[string]string) bool {
	return maps.Equal(ourAnnotations(a), ourAnnotations(b))
}

func ourAnnotations(all map[string]string) map[string]string {
	ours := make(map[string]string, len(all))
	for name, value := range all {
		if Annotation(name) {
			ours[name] = value
		}
	}
	return ours
}

// Annotation reports whether an annotation can affect routes. All others are
// dropped before an object is stored.
func Annotation(name string) bool {
	return strings.HasPrefix(name, "slipway.dev/") ||
		strings.HasPrefix(name, "traefik.ingress.kubernetes.io/") ||
		strings.HasPrefix(name, "nginx.ingress.kubernetes.io/") ||
		strings.HasPrefix(name, "ingress.kubernetes.io/") ||
		strings.HasPrefix(name, "service.kubernetes.io/") ||
		strings.HasPrefix(name, "ingressclass.kubernetes.io/") ||
		name == "kubernetes.io/ingress.class"
}

func sameIngress(a, b *networkingv1.Ingress) bool {
	return sameMeta(&a.ObjectMeta, &b.ObjectMeta) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		reflect.DeepEqual(&a.Spec, &b.Spec)
}

func sameClass(a, b *networkingv1.IngressClass) bool {
	return sameMeta(&a.ObjectMeta, &b.ObjectMeta) && reflect.DeepEqual(&a.Spec, &b.Spec)
}

func sameSecret(a, b *SecretBody) bool {
	return a.Type == b.Type && reflect.DeepEqual(a.Failure, b.Failure) && reflect.DeepEqual(a.Data, b.Data)
}
