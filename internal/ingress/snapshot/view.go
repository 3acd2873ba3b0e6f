package snapshot

import (
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// View reads a Snapshot and remembers what was read, also what was not there.
// Nothing that it returns may be changed.
type View struct {
	snapshot *Snapshot
	reads    map[Ref]struct{}
}

// View gives a view that has read nothing.
func (s *Snapshot) View() *View { return &View{snapshot: s, reads: map[Ref]struct{}{}} }

// Reads are what was read, each once, in no order.
func (v *View) Reads() iter.Seq[Ref] { return maps.Keys(v.reads) }

// ReadCount is how many those are.
func (v *View) ReadCount() int { return len(v.reads) }

func (v *View) note(ref Ref) { v.reads[ref] = struct{}{} }

// Ingress gives an Ingress, nil when there is none.
func (v *View) Ingress(namespace, name string) *networkingv1.Ingress {
	v.note(Ref{Ingress, namespace, name})
	return v.snapshot.ingresses[key{namespace, name}]
}

// Class gives an IngressClass, nil when there is none.
func (v *View) Class(name string) *networkingv1.IngressClass {
	v.note(Ref{IngressClass, "", name})
	return v.snapshot.classes[name]
}

// Service gives a Service, nil when there is none.
func (v *View) Service(namespace, name string) *corev1.Service {
	v.note(Ref{Service, namespace, name})
	return v.snapshot.services[key{namespace, name}]
}

// Slices gives the EndpointSlices of a Service, in the order of their names.
func (v *View) Slices(namespace, service string) []*discoveryv1.EndpointSlice {
	v.note(Ref{EndpointSlice, namespace, service})
	return v.snapshot.ofService[key{namespace, service}]
}

// Secret gives a Secret. It is nil when there is none, and has a Failure when
// it could not be read.
func (v *View) Secret(namespace, name string) *SecretBody {
	v.note(Ref{Secret, namespace, name})
	return v.snapshot.secrets[key{namespace, name}]
}

// Nodes gives all nodes, in the order of their names.
func (v *View) Nodes() []*NodeFacts {
	v.note(Ref{Kind: Node})
	return slices.SortedFunc(maps.Values(v.snapshot.nodes), func(a, b *NodeFacts) int { return strings.Compare(a.Name, b.Name) })
}

// Resource gives an object of a custom kind, nil when there is none, and
// whether the kind is known at all.
func (v *View) Resource(kind Kind, namespace, name string) (*Resource, KindState) {
	v.note(Ref{Kind: kind})
	v.note(Ref{kind, namespace, name})
	return v.snapshot.resources[Ref{kind, namespace, name}], v.snapshot.kinds[kind]
}
