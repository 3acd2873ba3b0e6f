package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// Observed is what a pass has read from the cluster. Decide owns it and changes the
// objects to what its writes will make of them.
type Observed struct {
	Rollout *v1alpha1.Rollout
	// Refused is what Decode refuses of the Rollout.
	Refused []refusal.Refusal
	// Workload is the object that the Rollout refers to, and Unresolved why it cannot be
	// used. Without a reference both are empty.
	Workload   *Workload
	Unresolved string
	// ReplicaSets are those of the namespace with a hash of a template, also of
	// other Rollouts.
	ReplicaSets []*appsv1.ReplicaSet
	// Equal is the hash of a ReplicaSet of the Rollout whose template is the same
	// but for its hash, which a newer version of a library may compute differently.
	Equal string
	// Services, Ingresses and Routes are those that the Rollout names and that
	// exist.
	Services  map[string]*corev1.Service
	Ingresses map[string]*networkingv1.Ingress
	Routes    map[string]*unstructured.Unstructured
	// Runs are the AnalysisRuns of the Rollout, the newest first, and Templates the
	// templates of its analyses. Both are empty without analyses.
	Runs      []Run
	Templates map[string]*v1alpha1.AnalysisTemplateSpec
	// Pods are those of the namespace with a hash of a template, if they get metadata by
	// their role or are restarted.
	Pods []*corev1.Pod
	Now  time.Time
}

// Decision is what a pass does: the writes in their order, and then the status.
type Decision struct {
	Writes []Write
	Status *v1alpha1.RolloutStatus
	Events []Event
	// Again is when the next pass is due without any event; zero is never.
	Again time.Duration
}

// Event is an Event of the Rollout.
type Event struct {
	Warning      bool
	Reason, Note string
}

// retryInvalid is when an invalid Rollout is looked at again: it may have been
// applied before the Services that it names.
const retryInvalid = 20 * time.Second

// pass is the state of one decision. old is the status that was read, and status the
// one that is made.
type pass struct {
	seen      Observed
	rollout   *v1alpha1.Rollout
	spec      *v1alpha1.RolloutSpec
	old       *v1alpha1.RolloutStatus
	status    v1alpha1.RolloutStatus
	now       metav1.Time
	newSet    *appsv1.ReplicaSet
	stableSet *appsv1.ReplicaSet
	all       []*appsv1.ReplicaSet
	others    []*appsv1.ReplicaSet
	runs      currentRuns
	pause     pauseChange
	// withinDelay: the new ReplicaSet waited to be scaled down when the pass began.
	withinDelay bool
	decision    Decision
}

// Decide returns what to do for a Rollout.
func Decide(seen Observed) Decision {
	p := newPass(seen)
	if problem := p.invalid(); problem != "" {
		p.reportInvalid(problem)
		return p.decision
	}
	p.syncWorkload()
	p.findReplicaSets()
	switch {
	case p.newSet == nil:
		p.createReplicaSet()
	case p.spec.Replicas == nil:
		// An autoscaler needs the field.
		p.patchRollout(map[string]any{"spec": map[string]any{"replicas": int64(defaultReplicas)}})
	case p.reportPause():
	default:
		p.reconcile()
	}
	return p.decision
}

// newPass starts a pass.
func newPass(seen Observed) *pass {
	rollout := seen.Rollout
	return &pass{
		seen: seen, rollout: rollout, spec: &rollout.Spec, old: &rollout.Status, now: metav1.NewTime(seen.Now.UTC().Truncate(time.Second)),
		status: v1alpha1.RolloutStatus{
			RestartedAt: rollout.Status.RestartedAt,
			Canary:      v1alpha1.CanaryStatus{Weights: rollout.Status.Canary.Weights},
		},
	}
}

// reconcile does one pass of a valid Rollout whose ReplicaSet exists.
func (p *pass) reconcile() {
	if p.isFullyPromoted() && p.isAborted() {
		p.pause.unabort = true
	}
	p.syncRevision()
	p.currentAnalysis()
	switch {
	case p.isScaling():
		p.syncReplicas()
	case p.spec.Strategy.BlueGreen != nil:
		p.blueGreen()
	default:
		p.canary()
	}
}

// findReplicaSets sorts the ReplicaSets into the new, the stable and the others. One
// without an owner that the selector matches is adopted.
func (p *pass) findReplicaSets() {
	selector, err := metav1.LabelSelectorAsSelector(p.spec.Selector)
	for _, set := range p.seen.ReplicaSets {
		owner := metav1.GetControllerOf(set)
		if owner == nil && err == nil && selector.Matches(labelsOf(set)) && set.DeletionTimestamp == nil {
			p.adopt(set)
			owner = metav1.GetControllerOf(set)
		}
		if owner != nil && owner.UID == p.rollout.UID {
			p.all = append(p.all, set)
		}
	}
	slices.SortFunc(p.all, byAge)
	p.newSet = p.byHash(templateHash(&p.spec.Template, p.old.CollisionCount))
	if p.newSet == nil {
		p.newSet = p.byHash(p.seen.Equal)
	}
	p.stableSet = p.byHash(p.old.StableRS)
	for _, set := range p.all {
		if set != p.newSet && set != p.stableSet {
			p.others = append(p.others, set)
		}
	}
	p.withinDelay = p.newSet != nil && p.untilDeadline(p.newSet) > 0
}

// byHash returns the ReplicaSet of a hash; nil if there is none.
func (p *pass) byHash(hash string) *appsv1.ReplicaSet {
	for _, set := range p.all {
		if hash != "" && hashOf(set) == hash {
			return set
		}
	}
	return nil
}

// byAge orders ReplicaSets by their creation.
func byAge(one, other *appsv1.ReplicaSet) int {
	if order := one.CreationTimestamp.Compare(other.CreationTimestamp.Time); order != 0 {
		return order
	}
	return compareText(one.Name, other.Name)
}

// replicas is the number of Pods that the Rollout wants.
func (p *pass) replicas() int32 {
	if p.spec.Replicas == nil {
		return defaultReplicas
	}
	return *p.spec.Replicas
}

// revision is that of the Rollout; 0 if it has none.
func (p *pass) revision() int64 { return revisionOf(&p.rollout.ObjectMeta) }

// revisionOf reads the annotation of a revision; 0 if there is none.
func revisionOf(object *metav1.ObjectMeta) int64 {
	number, err := strconv.ParseInt(object.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// isFullyPromoted: no update runs.
func (p *pass) isFullyPromoted() bool { return p.old.StableRS == p.old.CurrentPodHash }

// event records an Event.
func (p *pass) event(reason, format string, args ...any) {
	p.decision.Events = append(p.decision.Events, Event{Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// warn records an Event of the type Warning.
func (p *pass) warn(reason, format string, args ...any) {
	p.decision.Events = append(p.decision.Events, Event{Warning: true, Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// again requests a pass after some time. The earliest counts.
func (p *pass) again(after time.Duration) {
	after = max(after, time.Millisecond)
	if p.decision.Again == 0 || after < p.decision.Again {
		p.decision.Again = after
	}
}
