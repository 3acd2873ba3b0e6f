package rollout

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// kindOf is the kind of Rollouts, for owner references.
func kindOf() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.KindRollout}
}

// Numbers of a ReplicaSet, which may be nil.
func sizeOf(set *appsv1.ReplicaSet) int32 {
	switch {
	case set == nil:
		return 0
	case set.Spec.Replicas == nil:
		return defaultReplicas
	}
	return *set.Spec.Replicas
}

func availableOf(set *appsv1.ReplicaSet) int32 {
	if set == nil {
		return 0
	}
	return set.Status.AvailableReplicas
}

func actualOf(set *appsv1.ReplicaSet) int32 {
	if set == nil {
		return 0
	}
	return set.Status.Replicas
}

func readyOf(set *appsv1.ReplicaSet) int32 { return set.Status.ReadyReplicas }

// sum adds up a number of ReplicaSets.
func sum(sets []*appsv1.ReplicaSet, number func(*appsv1.ReplicaSet) int32) int32 {
	total := int32(0)
	for _, set := range sets {
		total += number(set)
	}
	return total
}

// nameOf is the name of a ReplicaSet; empty without one.
func nameOf(set *appsv1.ReplicaSet) string {
	if set == nil {
		return ""
	}
	return set.Name
}

// labelsOf are the labels of a ReplicaSet, for selectors.
func labelsOf(set *appsv1.ReplicaSet) labels.Set { return set.Labels }

// createReplicaSet creates the ReplicaSet of the template, with no Pods: the steps
// scale it. A ReplicaSet with its name that is not ours or has another template is a
// collision of hashes, which a count in the status resolves.
func (p *pass) createReplicaSet() {
	hash := templateHash(&p.spec.Template, p.old.CollisionCount)
	name := p.rollout.Name + "-" + hash
	for _, other := range p.seen.ReplicaSets {
		if other.Name == name {
			count := int32(1)
			if p.old.CollisionCount != nil {
				count = *p.old.CollisionCount + 1
			}
			status := *p.old
			status.CollisionCount = &count
			p.decision.Status = &status
			return
		}
	}
	template := *p.spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, hash)
	selector := p.spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, hash)
	size, revision := int32(0), strconv.FormatInt(p.nextRevision(), 10)
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.rollout.Namespace, Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.rollout, kindOf())},
			Annotations:     map[string]string{},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &size, MinReadySeconds: p.spec.MinReadySeconds, Selector: selector, Template: template},
	}
	p.copyAnnotations(set.Annotations)
	set.Annotations[annotationRevision] = revision
	set.Annotations[annotationDesired] = strconv.FormatInt(int64(p.replicas()), 10)
	injectMetadata(set, p.metadataOfNew())
	p.write(Write{Resource: replicaSets, Name: name, Create: set})
	p.setRevision(revision)
	p.event(reasonCreated, "Created ReplicaSet %s (revision %s)", name, revision)

	status := *p.old
	setCondition(&status, p.condition(v1alpha1.ConditionProgressing, yes, reasonCreated, fmt.Sprintf(messageNewReplicaSet, name)))
	p.decision.Status = &status
}

// withLabel returns labels with the hash.
func withLabel(given map[string]string, hash string) map[string]string {
	result := maps.Clone(given)
	if result == nil {
		result = map[string]string{}
	}
	result[labelHash] = hash
	return result
}

// nextRevision is one above all ReplicaSets but the new one.
func (p *pass) nextRevision() int64 {
	last := int64(0)
	for _, set := range p.all {
		if set != p.newSet {
			last = max(last, revisionOf(&set.ObjectMeta))
		}
	}
	return last + 1
}

// copyAnnotations copies annotations of the Rollout, but those that one of the two
// has for itself. It reports whether one changed.
func (p *pass) copyAnnotations(into map[string]string) bool {
	changed := false
	for name, value := range p.rollout.Annotations {
		switch name {
		case annotationApplied, annotationRevision, annotationRevisionHistory, annotationDesired, annotationNotified:
			continue
		}
		if into[name] != value {
			into[name] = value
			changed = true
		}
	}
	return changed
}

// adopt makes the Rollout the owner of a ReplicaSet that has none.
func (p *pass) adopt(set *appsv1.ReplicaSet) {
	set.OwnerReferences = append(set.OwnerReferences, *metav1.NewControllerRef(p.rollout, kindOf()))
	p.patchReplicaSet(set, map[string]any{"metadata": map[string]any{"ownerReferences": set.OwnerReferences, "uid": string(set.UID)}})
}

// setRevision writes the revision to the Rollout.
func (p *pass) setRevision(revision string) {
	if p.rollout.Annotations[annotationRevision] == revision {
		return
	}
	if p.rollout.Annotations == nil {
		p.rollout.Annotations = map[string]string{}
	}
	p.rollout.Annotations[annotationRevision] = revision
	p.patchRollout(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationRevision: revision}}})
	p.event(reasonRolloutUpdated, "Rollout updated to revision %s", revision)
}

// syncRevision gives the new ReplicaSet the highest revision, which it does not have
// after a rollback, and the annotations and minReadySeconds of the Rollout.
func (p *pass) syncRevision() {
	annotations := maps.Clone(p.newSet.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	changed := p.copyAnnotations(annotations)
	before, had := annotations[annotationRevision]
	if next := p.nextRevision(); revisionOf(&p.newSet.ObjectMeta) < next {
		annotations[annotationRevision] = strconv.FormatInt(next, 10)
		changed = true
	}
	if had && changed {
		history := strings.Split(annotations[annotationRevisionHistory], ",")
		if history[0] == "" {
			history = nil
		}
		annotations[annotationRevisionHistory] = strings.Join(append(history, before), ",")
	}
	if changed || p.newSet.Spec.MinReadySeconds != p.spec.MinReadySeconds {
		p.newSet.Annotations = annotations
		p.newSet.Spec.MinReadySeconds = p.spec.MinReadySeconds
		p.patchReplicaSet(p.newSet, map[string]any{
			"metadata": map[string]any{"annotations": annotations},
			"spec":     map[string]any{"minReadySeconds": p.spec.MinReadySeconds},
		})
	}
	p.setRevision(p.newSet.Annotations[annotationRevision])
	if conditionOf(p.old, v1alpha1.ConditionProgressing) == nil {
		setCondition(p.old, p.condition(v1alpha1.ConditionProgressing, yes, reasonFound, fmt.Sprintf(messageFound, p.newSet.Name)))
	}
}

// isScaling: the Rollout wants another number of Pods than when its ReplicaSets were
// scaled last. Only their numbers are changed then.
func (p *pass) isScaling() bool {
	for _, set := range []*appsv1.ReplicaSet{p.newSet, p.stableSet} {
		if sizeOf(set) == 0 {
			continue
		}
		desired, err := strconv.ParseInt(set.Annotations[annotationDesired], 10, 32)
		if err == nil && int32(desired) != p.replicas() {
			return true
		}
	}
	return false
}

// syncReplicas scales the ReplicaSets to a new number of Pods.
func (p *pass) syncReplicas() {
	status := *p.old
	if p.spec.Strategy.BlueGreen != nil {
		p.scaleBlueGreen()
		if active := p.byHash(status.BlueGreen.ActiveSelector); active != nil {
			status.HPAReplicas, status.AvailableReplicas = actualOf(active), availableOf(active)
		} else {
			status.HPAReplicas, status.AvailableReplicas = sum(p.all, actualOf), sum(p.all, availableOf)
		}
	} else {
		p.scaleCanary()
		status.HPAReplicas, status.AvailableReplicas = sum(p.all, actualOf), sum(p.all, availableOf)
	}
	p.status = status
	p.finish()
}

// scale gives a ReplicaSet a size. It reports whether the size changed.
func (p *pass) scale(set *appsv1.ReplicaSet, size int32) bool {
	desired := strconv.FormatInt(int64(p.replicas()), 10)
	before := sizeOf(set)
	_, waits := set.Annotations[annotationDeadline]
	if before == size && set.Annotations[annotationDesired] == desired && (p.replicas() != 0 || !waits) {
		return false
	}
	annotations := map[string]any{annotationDesired: desired}
	p.annotate(set, annotationDesired, desired)
	if size == 0 && waits && !p.delaysAbort() {
		annotations[annotationDeadline] = nil
		delete(set.Annotations, annotationDeadline)
	}
	set.Spec.Replicas = &size
	p.patchReplicaSet(set, map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"replicas": size}})
	if before == size {
		return false
	}
	direction := "up"
	if size < before {
		direction = "down"
	}
	p.event(reasonScaling, "Scaled %s ReplicaSet %s (revision %d) from %d to %d", direction, set.Name, revisionOf(&set.ObjectMeta), before, size)
	return true
}

// annotate sets an annotation of a ReplicaSet in memory.
func (p *pass) annotate(set *appsv1.ReplicaSet, name, value string) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[name] = value
}

// deleteOld deletes the oldest ReplicaSets above the limit of the history, once they
// have no Pods.
func (p *pass) deleteOld() {
	limit := defaultHistory
	if p.spec.RevisionHistoryLimit != nil {
		limit = int(*p.spec.RevisionHistoryLimit)
	}
	var alive []*appsv1.ReplicaSet
	for _, set := range p.others { // oldest first
		if set.DeletionTimestamp == nil {
			alive = append(alive, set)
		}
	}
	for i := range max(len(alive)-limit, 0) {
		set := alive[i]
		if set.Status.Replicas != 0 || sizeOf(set) != 0 || set.Generation > set.Status.ObservedGeneration {
			continue
		}
		p.write(Write{Resource: replicaSets, Name: set.Name, Delete: true})
		p.deleteRunsOf(set)
	}
}

// isSaturated: a ReplicaSet has all Pods that the Rollout wants, and they are
// available.
func (p *pass) isSaturated(set *appsv1.ReplicaSet) bool {
	if set == nil {
		return false
	}
	desired, err := strconv.ParseInt(set.Annotations[annotationDesired], 10, 32)
	return err == nil && int32(desired) == p.replicas() && sizeOf(set) == p.replicas() && availableOf(set) == p.replicas()
}

// hasDeadline: a ReplicaSet waits to be scaled down.
func hasDeadline(set *appsv1.ReplicaSet) bool { return set.Annotations[annotationDeadline] != "" }

// untilDeadline is the time until a ReplicaSet is scaled down; 0 if that is due or it
// does not wait.
func (p *pass) untilDeadline(set *appsv1.ReplicaSet) time.Duration {
	deadline, err := time.Parse(time.RFC3339, set.Annotations[annotationDeadline])
	if err != nil {
		return 0
	}
	return max(deadline.Sub(p.seen.Now), 0)
}

// setDeadline makes a ReplicaSet wait before it is scaled down. No delay removes the
// deadline.
func (p *pass) setDeadline(set *appsv1.ReplicaSet, delay time.Duration) {
	if delay == 0 {
		p.removeDeadline(set)
		return
	}
	deadline := p.seen.Now.Add(delay).UTC().Format(time.RFC3339)
	p.annotate(set, annotationDeadline, deadline)
	p.patchReplicaSet(set, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationDeadline: deadline}}})
	p.again(delay)
}

// removeDeadline lets a ReplicaSet run on.
func (p *pass) removeDeadline(set *appsv1.ReplicaSet) {
	if !hasDeadline(set) {
		return
	}
	delete(set.Annotations, annotationDeadline)
	p.patchReplicaSet(set, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationDeadline: nil}}})
}
