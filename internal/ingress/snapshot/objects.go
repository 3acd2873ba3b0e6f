package snapshot

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects that are put into a Snapshot are *networkingv1.Ingress,
// *networkingv1.IngressClass, *corev1.Service, *discoveryv1.EndpointSlice,
// *SecretBody, *NodeFacts and *Resource. None of them is changed afterwards.

// SecretBody is a Secret with its data, or why there is none.
type SecretBody struct {
	Namespace string
	Name      string
	UID       types.UID
	// Type is such as kubernetes.io/tls.
	Type string
	// Version is the resource version, which changes with the data.
	Version string
	Data    map[string][]byte
	// Failure says why the data could not be read; nil when it was.
	Failure *Fault
}

// String shows which Secret it is and nothing of its data.
func (s *SecretBody) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// GoString is String: %#v must not show the data either.
func (s *SecretBody) GoString() string { return s.String() }

// NodeFacts is what is known of a node.
type NodeFacts struct {
	Name string
	// Zone is the label topology.kubernetes.io/zone.
	Zone     string
	Internal []netip.Addr
	External []netip.Addr
	// Ready is false for a node that cannot pass traffic on.
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
	// Spec is the object's spec as JSON: maps, lists, strings, numbers
	// (float64 or int64), booleans.
	Spec map[string]any
}

// KindState says whether objects of a custom kind are known.
type KindState uint8

// The states of a kind. A kind that nothing was said about is pending.
const (
	KindPending KindState = iota
	// KindKnown: all objects of the kind are in the Snapshot.
	KindKnown
	// KindMissing: the cluster does not have the kind.
	KindMissing
	// KindForbidden: the API server does not let us read it.
	KindForbidden
)

// serviceOf names the Service that a slice belongs to, empty for none.
func serviceOf(slice *discoveryv1.EndpointSlice) string {
	return slice.Labels[discoveryv1.LabelServiceName]
}
