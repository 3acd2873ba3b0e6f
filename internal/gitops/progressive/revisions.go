package progressive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/v1alpha1"
)

const (
	// hashLabel is the label of ReplicaSets and Pods of a Rollout.
	hashLabel = "rollouts-pod-template-hash"
	// revisionAnnotation is the number of a ReplicaSet's revision.
	revisionAnnotation = "rollout.argoproj.io/revision"
)

// ErrUnchanged means that the template is already that of the wanted revision.
var ErrUnchanged = errors.New("the template is already that of the revision")

// AddRevisions reads the ReplicaSets of a Rollout, newest first. A Release has its
// revisions already.
func (r *Reader) AddRevisions(ctx context.Context, state *State) error {
	if state.Kind != KindRollout {
		return nil
	}
	decoded, err := decodeRollout(state.Object)
	if err != nil {
		return err
	}
	sets, err := r.replicaSets(ctx, state.Object, decoded)
	if err != nil {
		return err
	}
	state.Revisions = nil
	for _, set := range sets {
		state.Revisions = append(state.Revisions, decoded.revisionOf(set))
	}
	return nil
}

// replicaSets returns the ReplicaSets that the Rollout controls, newest first.
func (r *Reader) replicaSets(ctx context.Context, object *unstructured.Unstructured, decoded *rollout) ([]*appsv1.ReplicaSet, error) {
	options := metav1.ListOptions{}
	if decoded.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(decoded.Spec.Selector)
		if err != nil {
			return nil, err
		}
		options.LabelSelector = selector.String()
	}
	all, err := r.Client.AppsV1().ReplicaSets(object.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list the ReplicaSets of the Rollout %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	var owned []*appsv1.ReplicaSet
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], object) {
			owned = append(owned, &all.Items[i])
		}
	}
	slices.SortFunc(owned, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(numberOf(b), numberOf(a)), cmp.Compare(a.Name, b.Name))
	})
	return owned, nil
}

// numberOf returns the number of a revision, 0 without one.
func numberOf(set *appsv1.ReplicaSet) int64 {
	number, _ := strconv.ParseInt(set.Annotations[revisionAnnotation], 10, 64)
	return number
}

func (r *rollout) revisionOf(set *appsv1.ReplicaSet) Revision {
	hash := set.Labels[hashLabel]
	revision := Revision{
		Number: numberOf(set), ReplicaSet: set.Name, Hash: hash,
		Ready: set.Status.ReadyReplicas, Pods: set.Status.Replicas, Name: r.roleOf(hash),
	}
	for i := range set.Spec.Template.Spec.Containers {
		revision.Images = append(revision.Images, set.Spec.Template.Spec.Containers[i].Image)
	}
	if weights := r.Status.Canary.Weights; weights != nil {
		switch revision.Name {
		case v1alpha1.RevisionStable:
			revision.Weight = &weights.Stable.Weight
		case v1alpha1.RevisionCanary:
			revision.Weight = &weights.Canary.Weight
		}
	}
	return revision
}

// roleOf returns the role of the Pods with a hash. The new revision is the stable
// one as well once it is promoted, and is shown as that.
func (r *rollout) roleOf(hash string) string {
	blue := r.Status.BlueGreen
	switch {
	case hash == "":
		return ""
	case r.Spec.Strategy.BlueGreen != nil && hash == blue.ActiveSelector:
		return "active"
	case r.Spec.Strategy.BlueGreen != nil && hash == blue.PreviewSelector:
		return "preview"
	case hash == r.Status.StableRS:
		return v1alpha1.RevisionStable
	case r.Spec.Strategy.Canary != nil && hash == r.Status.CurrentPodHash:
		return v1alpha1.RevisionCanary
	}
	return ""
}

// Undo writes the template of an earlier revision into a Rollout, or into the
// workload that it refers to, and returns the number of that revision. Number 0
// is the revision before the newest.
func (r *Reader) Undo(ctx context.Context, state *State, number int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	decoded, err := decodeRollout(state.Object)
	if err != nil {
		return 0, err
	}
	sets, err := r.replicaSets(ctx, state.Object, decoded)
	if err != nil {
		return 0, err
	}
	set, err := earlier(sets, number)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", state.ID, err)
	}
	// The label belongs to the ReplicaSet and not to the template that it was made
	// from.
	delete(set.Spec.Template.Labels, hashLabel)
	if same, err := sameTemplate(state.Object, set); err != nil || same {
		return numberOf(set), firstError(err, ErrUnchanged)
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": set.Spec.Template}})
	if err != nil {
		return 0, err
	}
	if err := r.patchTemplate(ctx, state, decoded, patch); err != nil {
		return 0, &AccessError{Verb: "patch", ID: state.ID, Err: err}
	}
	return numberOf(set), nil
}

// earlier returns the set of a revision. sets are sorted, newest first.
func earlier(sets []*appsv1.ReplicaSet, number int64) (*appsv1.ReplicaSet, error) {
	if number == 0 {
		if len(sets) < 2 {
			return nil, errors.New("there is no earlier revision")
		}
		return sets[1], nil
	}
	for _, set := range sets {
		if numberOf(set) == number {
			return set, nil
		}
	}
	return nil, fmt.Errorf("there is no revision %d", number)
}

// sameTemplate reports whether the Rollout's template gives that of the set. The
// API server has added defaults to the set's, so that fields which the Rollout
// does not set are not compared.
func sameTemplate(object *unstructured.Unstructured, set *appsv1.ReplicaSet) (bool, error) {
	current, found, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil || !found {
		return false, err
	}
	unstructured.RemoveNestedField(current, "metadata", "labels", hashLabel)
	wanted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&set.Spec.Template)
	return err == nil && equality.Semantic.DeepDerivative(current, wanted), err
}

func (r *Reader) patchTemplate(ctx context.Context, state *State, decoded *rollout, patch []byte) error {
	options := metav1.PatchOptions{FieldManager: r.Manager}
	reference := decoded.Spec.WorkloadRef
	var err error
	switch {
	case reference == nil:
		_, err = r.of(state.Kind, state.Namespace).Patch(ctx, state.Name, types.JSONPatchType, patch, options)
	case reference.Kind == "Deployment":
		_, err = r.Client.AppsV1().Deployments(state.Namespace).Patch(ctx, reference.Name, types.JSONPatchType, patch, options)
	case reference.Kind == "ReplicaSet":
		_, err = r.Client.AppsV1().ReplicaSets(state.Namespace).Patch(ctx, reference.Name, types.JSONPatchType, patch, options)
	default:
		err = fmt.Errorf("its workload is a %s: the template of that kind cannot be changed here", reference.Kind)
	}
	return err
}
