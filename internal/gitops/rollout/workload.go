package rollout

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// Workload is the object that spec.workloadRef names. The reader has put its template
// and selector into the spec.
type Workload struct {
	Name       string
	Generation int64
	// Replicas is nil for all kinds but Deployment, which are not scaled.
	Replicas *int32
}

// workloadKind is where a kind of workload has its template.
type workloadKind struct {
	resource schema.GroupVersionResource
	template []string
}

// workloadKinds are the kinds that a Rollout may refer to.
var workloadKinds = map[schema.GroupKind]workloadKind{
	{Group: "apps", Kind: "Deployment"}: {deployments, []string{"spec", "template"}},
	{Group: "apps", Kind: "ReplicaSet"}: {replicaSets, []string{"spec", "template"}},
	{Kind: "PodTemplate"}:               {podTemplates, []string{"template"}},
}

// kindOfWorkload returns the kind of a reference.
func kindOfWorkload(ref *v1alpha1.ObjectRef) (workloadKind, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	known, ok := workloadKinds[kind.GroupKind()]
	if !ok || known.resource.Version != kind.Version {
		return workloadKind{}, fmt.Errorf("workload of type %s/%s is not supported", kind.Group, kind.Kind)
	}
	return known, nil
}

// errTemplateTwice is a reference beside a template.
var errTemplateTwice = errors.New("template must be empty for workload reference rollout")

// workload resolves spec.workloadRef. A reference that leads nowhere makes the Rollout
// invalid until the workload is there.
func (r reader) workload(ctx context.Context, seen *Observed) error {
	spec := &seen.Rollout.Spec
	if spec.WorkloadRef == nil {
		return nil
	}
	kind, err := kindOfWorkload(spec.WorkloadRef)
	if err == nil && len(spec.Template.Labels)+len(spec.Template.Annotations) > 0 {
		err = errTemplateTwice
	}
	if err != nil {
		seen.Unresolved = err.Error()
		return nil
	}
	object, err := r.cluster.Dynamic.Resource(kind.resource).Namespace(seen.Rollout.Namespace).Get(ctx, spec.WorkloadRef.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		seen.Unresolved = err.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the workload %s: %w", spec.WorkloadRef.Name, err)
	}
	return resolve(seen, kind, object)
}

// resolve takes template and selector of a workload into the spec.
func resolve(seen *Observed, kind workloadKind, object *unstructured.Unstructured) error {
	spec := &seen.Rollout.Spec
	content, _, err := unstructured.NestedMap(object.Object, kind.template...)
	if err != nil {
		return fmt.Errorf("read the template of the workload: %w", err)
	}
	var template corev1.PodTemplateSpec
	if err := decodeJSON(content, &template); err != nil {
		return fmt.Errorf("decode the template of the workload: %w", err)
	}
	spec.Template = template
	if selector, found, _ := unstructured.NestedMap(object.Object, "spec", "selector"); found && spec.Selector == nil {
		spec.Selector = &metav1.LabelSelector{}
		if err := decodeJSON(selector, spec.Selector); err != nil {
			return fmt.Errorf("decode the selector of the workload: %w", err)
		}
	}
	seen.Workload = &Workload{Name: object.GetName(), Generation: object.GetGeneration()}
	if kind.resource == deployments {
		replicas, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		if !found {
			replicas = defaultReplicas
		}
		size := int32(replicas)
		seen.Workload.Replicas = &size
	}
	return nil
}

// syncWorkload writes the generation of the workload to the Rollout, which clients
// compare with the one in the status.
func (p *pass) syncWorkload() {
	before, has := p.rollout.Annotations[annotationWorkload]
	var after any
	switch {
	case p.seen.Workload == nil && !has:
		return
	case p.seen.Workload == nil:
		delete(p.rollout.Annotations, annotationWorkload)
	default:
		generation := strconv.FormatInt(p.seen.Workload.Generation, 10)
		if before == generation {
			return
		}
		if p.rollout.Annotations == nil {
			p.rollout.Annotations = map[string]string{}
		}
		p.rollout.Annotations[annotationWorkload] = generation
		after = generation
	}
	p.patchRollout(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationWorkload: after}}})
}

// movesFrom: Pods move from the Deployment to the Rollout in this way. That is done for
// the first revision only, as Argo Rollouts does it.
func (p *pass) movesFrom(scaleDown string) bool {
	ref := p.spec.WorkloadRef
	return ref != nil && ref.ScaleDown == scaleDown && p.seen.Workload != nil && p.seen.Workload.Replicas != nil
}

// scaleWorkloadOnSuccess scales the Deployment to zero once the first revision is healthy.
func (p *pass) scaleWorkloadOnSuccess() {
	if p.movesFrom(v1alpha1.ScaleDownOnSuccess) && p.revision() == 1 && p.old.Phase == v1alpha1.PhaseHealthy {
		p.scaleWorkload(0)
	}
}

// scaleWorkloadProgressively takes a Pod of the Deployment for each that is ready, and
// gives them back if the new ReplicaSet shrinks.
func (p *pass) scaleWorkloadProgressively(before, after int32) {
	if !p.movesFrom(v1alpha1.ScaleDownProgressively) || revisionOf(&p.newSet.ObjectMeta) != 1 {
		return
	}
	switch {
	case p.old.Phase == v1alpha1.PhaseHealthy:
		p.scaleWorkload(0)
	case p.old.ReadyReplicas > 0 || before > after:
		p.scaleWorkload(max(p.replicas()-p.old.ReadyReplicas, 0))
	}
}

// scaleWorkload scales the Deployment.
func (p *pass) scaleWorkload(size int32) {
	workload := p.seen.Workload
	if *workload.Replicas == size {
		return
	}
	workload.Replicas = &size
	p.write(Write{Resource: deployments, Name: workload.Name, Patch: map[string]any{"spec": map[string]any{"replicas": size}}})
}
