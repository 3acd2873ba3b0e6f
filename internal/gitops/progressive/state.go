package progressive

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/api/v1alpha1"
)

// Kind is one of the kinds that this package reads.
type Kind string

// The kinds.
const (
	KindRollout Kind = rollouts.KindRollout
	KindRelease Kind = v1alpha1.KindRelease
)

// Kinds returns both kinds, in the order in which they are listed.
func Kinds() []Kind { return []Kind{KindRollout, KindRelease} }

// Resource returns the resource of a kind, for the dynamic client.
func (k Kind) Resource() schema.GroupVersionResource {
	if k == KindRollout {
		return rollouts.RolloutResource()
	}
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: v1alpha1.ResourceRelease}
}

// ID identifies a Rollout or a Release.
type ID struct {
	Kind            Kind
	Namespace, Name string
}

// String formats an ID for messages.
func (i ID) String() string { return fmt.Sprintf("%s %s/%s", i.Kind, i.Namespace, i.Name) }

// compareIDs orders by namespace, name and kind.
func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// State is what people see of a Rollout or a Release.
type State struct {
	ID
	// Strategy is Canary, BlueGreen, or empty if neither is given.
	Strategy string
	// Phase is one of Progressing, Paused, Healthy and Degraded for a Rollout, and
	// the phase of its status for a Release.
	Phase, Message string
	// Step counts the steps that are done of a Rollout, and is the number of the
	// current step of a Release. Steps is 0 without steps.
	Step, Steps int32
	// StepNames describe the steps of a Rollout.
	StepNames []string
	// Weight is the share of the new revision that the steps request. It
	// is nil for blue-green.
	Weight *int32
	// Replicas are the numbers of a Rollout's Pods; nil for a Release.
	Replicas *Replicas
	// Decision is the last decision of the judge, for a Release.
	Decision  *v1alpha1.ReleaseDecision
	Revisions []Revision
	// Object is the whole object.
	Object *unstructured.Unstructured
}

// Replicas are numbers of Pods.
type Replicas struct {
	Desired, Current, Updated, Ready, Available int32
}

// Revision is one of the revisions that run, or could run again.
type Revision struct {
	// Name is the role: stable, canary, active, preview; empty for an older one.
	Name string
	// Number counts the revisions of a Rollout.
	Number int64
	// ReplicaSet is the name of the object, for a Rollout.
	ReplicaSet string
	Hash       string
	Commit     string
	Images     []string
	// Weight is the share of requests; nil if it is unknown.
	Weight *int32
	// Ready and Pods count Pods. A Release counts only the ready ones.
	Ready, Pods int32
	// Traffic is what the edges counted, for a Release.
	Traffic *v1alpha1.ReleaseRevisionStatus
}

// Done reports whether nothing more happens without a change or a person, and
// whether the new revision serves.
func (s *State) Done() (done, succeeded bool) {
	switch s.Phase {
	case rollouts.PhaseHealthy, v1alpha1.ReleaseSucceeded:
		return true, true
	case rollouts.PhaseDegraded, v1alpha1.ReleaseRolledBack, v1alpha1.ReleaseHeld:
		return true, false
	}
	return false, false
}

// StateOf reads the state of an object of either kind. The revisions of a Rollout
// are other objects, which [Reader.AddRevisions] reads.
func StateOf(object *unstructured.Unstructured) (*State, error) {
	var state *State
	var err error
	switch kind := Kind(object.GetKind()); kind {
	case KindRollout:
		state, err = rolloutState(object)
	case KindRelease:
		state, err = releaseState(object)
	default:
		return nil, fmt.Errorf("%s is neither a Rollout nor a Release", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	state.ID = ID{Kind(object.GetKind()), object.GetNamespace(), object.GetName()}
	state.Object = object
	return state, nil
}

// Actions returns the actions that fit the phase, for clients that offer nothing
// else. Another one is not refused: the phase may have changed meanwhile.
func (s *State) Actions() []Action {
	switch s.Phase {
	case rollouts.PhaseProgressing:
		return []Action{Promote, PromoteFull, Pause, Abort}
	case rollouts.PhasePaused:
		return []Action{Promote, PromoteFull, Resume, Abort}
	case rollouts.PhaseDegraded, v1alpha1.ReleaseRolledBack, v1alpha1.ReleaseHeld:
		return []Action{Retry}
	}
	return nil
}
