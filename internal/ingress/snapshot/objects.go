package snapshot

import (
	"net/netip"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
)

// The types of objects in a Snapshot are *networkingv1.Ingress,
// *networkingv1.IngressClass, *ServiceFacts, *Slice,
// *SecretBody, *NodeFacts, *Resource, *Owned, *OwnersState, *corev1.Namespace and those of GatewayObject. They are immutable once they are stored:
// readers keep pointers to them. Put takes a *corev1.Service and a *discoveryv1.EndpointSlice, too.

// SecretBody is a Secret with its data, or why it could not be read.
type SecretBody struct {
	Namespace string
	Name      string
	UID       types.UID
	// Type is such as kubernetes.io/tls.
	Type string
	// Version is the resource version, which changes with the data.
	Version string
	Data    map[string][]byte
	// Failure is why the data could not be read; nil if it was.
	Failure *refusal.Refusal
}

// String returns the name of the Secret and nothing of its data, for logs.
func (s *SecretBody) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// GoString is String: %#v must not show the data either.
func (s *SecretBody) GoString() string { return s.String() }

// NodeFacts is the part of a node that addresses and routes depend on.
type NodeFacts struct {
	Name string
	// Zone is the label topology.kubernetes.io/zone.
	Zone     string
	Internal []netip.Addr
	External []netip.Addr
	// Ready is false for a node that is not ready, is being deleted, or is excluded
	// from load balancers.
	Ready bool
}

// Resource is an object of a kind that is not part of Kubernetes.
type Resource struct {
	Kind      Kind
	Namespace string
	Name      string
	UID       types.UID
	// Version is the resource version.
	Version string
	// Created, Deleting and Annotations are set for routes only.
	Created     time.Time
	Deleting    bool
	Annotations map[string]string
	// Spec is the object's spec as JSON: maps, lists, strings, numbers
	// (float64 or int64), booleans.
	Spec map[string]any
}

// SpecOfData returns the data of a ConfigMap as the spec of a Resource: all of it, or of
// one with more than MaxHeaderMap bytes the authorities.
func SpecOfData(data map[string]string) map[string]any {
	spec, size := make(map[string]any, len(data)), 0
	for name, value := range data {
		spec[name] = value
		size += len(name) + len(value)
	}
	if size <= MaxHeaderMap {
		return spec
	}
	bundle, has := spec[AuthorityKey]
	spec = map[string]any{OmittedKey: true}
	if has {
		spec[AuthorityKey] = bundle
	}
	return spec
}

// sameResource compares what routes depend on. A route that was replaced by another of its
// name has another age.
func sameResource(a, b *Resource) bool {
	return reflect.DeepEqual(a.Spec, b.Spec) && a.Created.Equal(b.Created) && a.Deleting == b.Deleting && sameAnnotations(a.Annotations, b.Annotations)
}

// KindState is the state of a custom kind in the cluster.
type KindState uint8

// The states of a kind. The zero value is that of a kind before SetKind.
const (
	KindPending KindState = iota
	// KindKnown: all objects of the kind are in the Snapshot.
	KindKnown
	// KindMissing: the cluster does not have the kind.
	KindMissing
	// KindForbidden: the API server does not let us read it.
	KindForbidden
)
