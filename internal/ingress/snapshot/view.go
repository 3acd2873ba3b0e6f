package snapshot

import (
	"iter"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// View reads a Snapshot and records what was read, also what did not exist: its
// creation has to be noticed too. Callers must not modify what it returns.
type View struct {
	snapshot *Snapshot
	reads    map[Ref]struct{}
}

// View returns a view with an empty record.
func (s *Snapshot) View() *View { return &View{snapshot: s, reads: map[Ref]struct{}{}} }

// Reads returns what was read, each once, in no order.
func (v *View) Reads() iter.Seq[Ref] { return maps.Keys(v.reads) }

func (v *View) note(ref Ref) { v.reads[ref] = struct{}{} }

// Ingress returns an Ingress, nil if it does not exist.
func (v *View) Ingress(namespace, name string) *networkingv1.Ingress {
	v.note(Ref{Ingress, namespace, name})
	return v.snapshot.ingresses[key{namespace, name}]
}

// Class returns an IngressClass, nil if it does not exist.
func (v *View) Class(name string) *networkingv1.IngressClass {
	v.note(Ref{IngressClass, "", name})
	return v.snapshot.classes[name]
}

// Service returns a Service, nil if it does not exist.
func (v *View) Service(namespace, name string) *ServiceFacts {
	v.note(Ref{Service, namespace, name})
	return v.snapshot.services[key{namespace, name}]
}

// Slices returns the EndpointSlices of a Service, sorted by name.
func (v *View) Slices(namespace, service string) []*Slice {
	v.note(Ref{EndpointSlice, namespace, service})
	return v.snapshot.ofService[key{namespace, service}]
}

// Secret returns a Secret; nil if it does not exist. It has a Failure if it could
// not be read.
func (v *View) Secret(namespace, name string) *SecretBody {
	v.note(Ref{Secret, namespace, name})
	return v.snapshot.secrets[key{namespace, name}]
}

// Nodes returns all nodes, sorted by name.
func (v *View) Nodes() []*NodeFacts {
	v.note(Ref{Kind: Node})
	return slices.SortedFunc(maps.Values(v.snapshot.nodes), func(a, b *NodeFacts) int { return strings.Compare(a.Name, b.Name) })
}

// Resource returns an object of a custom kind, nil if it does not exist, and the
// state of the kind. Both reads are recorded.
func (v *View) Resource(kind Kind, namespace, name string) (*Resource, KindState) {
	v.note(Ref{Kind: kind})
	v.note(Ref{kind, namespace, name})
	return v.snapshot.resources[Ref{kind, namespace, name}], v.snapshot.kinds[kind]
}
