package snapshot

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The kinds that endpoints are found to belong to a revision by. Pod without a name
// stands for all owners of a namespace: they are watched while something reads it.
const (
	Pod        Kind = "Pod"
	ReplicaSet Kind = "ReplicaSet"
)

// Release is read with all others of its namespace, under an empty name.
const Release Kind = "Release.slipway.dev"

// Owned is a Pod or a ReplicaSet with the object that controls it.
type Owned struct {
	Kind      Kind // Pod or ReplicaSet
	Namespace string
	Name      string
	UID       types.UID
	// Controller is zero for an object that nothing controls.
	Controller Controller
}

// Controller is the object that controls another.
type Controller struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

// OwnersState is the state of the Pods and ReplicaSets of a namespace. Until it is
// KindKnown they are incomplete.
type OwnersState struct {
	Namespace string
	State     KindState
}

// putOwned stores a Pod or a ReplicaSet.
func (s *Snapshot) putOwned(o *Owned) []Ref {
	at := Ref{o.Kind, o.Namespace, o.Name}
	before := s.owned[at]
	s.owned[at] = o
	return changed(before == nil || *before != *o, at)
}

// putOwnersState stores the state of a namespace.
func (s *Snapshot) putOwnersState(o *OwnersState) []Ref {
	before := s.owners[o.Namespace]
	if s.owners[o.Namespace] = o.State; o.State == KindPending {
		delete(s.owners, o.Namespace)
	}
	return changed(before != o.State, Ref{Kind: Pod, Namespace: o.Namespace})
}

// putRelease stores a Release, which readers find by its namespace.
func (s *Snapshot) putRelease(o *Resource) []Ref {
	of := s.releases[o.Namespace]
	if of == nil {
		of = map[string]*Resource{}
		s.releases[o.Namespace] = of
	}
	before := of[o.Name]
	of[o.Name] = o
	return changed(before == nil || !sameResource(before, o), Ref{Kind: Release, Namespace: o.Namespace})
}

// deleteRelease removes a Release.
func (s *Snapshot) deleteRelease(namespace, name string) []Ref {
	refs := remove(s.releases[namespace], name, Ref{Kind: Release, Namespace: namespace})
	if len(s.releases[namespace]) == 0 {
		delete(s.releases, namespace)
	}
	return refs
}

// Releases returns the Releases of a namespace, sorted by name.
func (v *View) Releases(namespace string) []*Resource {
	v.note(Ref{Kind: Release, Namespace: namespace})
	of := v.snapshot.releases[namespace]
	if len(of) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(of), func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
}

// Owners returns the state of the Pods and ReplicaSets of a namespace. Reading it keeps
// them watched.
func (v *View) Owners(namespace string) KindState {
	v.note(Ref{Kind: Pod, Namespace: namespace})
	return v.snapshot.owners[namespace]
}

// Owned returns a Pod or a ReplicaSet, nil if it is not known.
func (v *View) Owned(kind Kind, namespace, name string) *Owned {
	ref := Ref{kind, namespace, name}
	v.note(ref)
	return v.snapshot.owned[ref]
}
