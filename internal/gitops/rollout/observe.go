package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

// reader reads what a pass needs, from the API server and not from a cache: a pass
// that sees an old status would do a step twice.
type reader struct{ cluster *kube.Cluster }

// observe reads a Rollout with all objects that it names. It returns nil for one that
// does not exist or is being deleted.
func (r reader) observe(ctx context.Context, name types.NamespacedName) (*unstructured.Unstructured, *Observed, error) {
	object, err := r.cluster.Dynamic.Resource(rolloutsKind).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the Rollout: %w", err)
	}
	if object.GetDeletionTimestamp() != nil {
		return nil, nil, nil
	}
	rollout, refused, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("decode the Rollout: %w", err)
	}
	seen := &Observed{Rollout: rollout, Refused: refused, Now: time.Now()}
	if len(refused) > 0 {
		return object, seen, nil
	}
	for _, read := range []func(context.Context, *Observed) error{r.workload, r.replicaSets, r.services, r.ingresses, r.routes, r.pods, r.analysis, r.equal} {
		if err := read(ctx, seen); err != nil {
			return nil, nil, err
		}
	}
	return object, seen, nil
}

// replicaSets lists the ReplicaSets of Rollouts in the namespace.
func (r reader) replicaSets(ctx context.Context, seen *Observed) error {
	list, err := r.cluster.Client.AppsV1().ReplicaSets(seen.Rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelHash})
	if err != nil {
		return fmt.Errorf("list the ReplicaSets: %w", err)
	}
	for i := range list.Items {
		seen.ReplicaSets = append(seen.ReplicaSets, &list.Items[i])
	}
	return nil
}

// services reads the Services that the Rollout names.
func (r reader) services(ctx context.Context, seen *Observed) error {
	seen.Services = map[string]*corev1.Service{}
	for _, name := range serviceNames(&seen.Rollout.Spec) {
		service, err := r.cluster.Client.CoreV1().Services(seen.Rollout.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			seen.Services[name] = service
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the Service %s: %w", name, err)
		}
	}
	return nil
}

// ingresses reads the Ingresses that the Rollout names, and those beside them.
func (r reader) ingresses(ctx context.Context, seen *Observed) error {
	seen.Ingresses = map[string]*networkingv1.Ingress{}
	canary := seen.Rollout.Spec.Strategy.Canary
	if canary == nil {
		return nil
	}
	for _, stable := range ingressNames(canary.TrafficRouting) {
		for _, name := range []string{stable, canaryIngressName(seen.Rollout.Name, stable)} {
			if stable == "" {
				continue
			}
			ingress, err := r.cluster.Client.NetworkingV1().Ingresses(seen.Rollout.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				seen.Ingresses[name] = ingress
			} else if !apierrors.IsNotFound(err) {
				return fmt.Errorf("read the Ingress %s: %w", name, err)
			}
		}
	}
	return nil
}

// routes reads the HTTPRoutes that the Rollout names.
func (r reader) routes(ctx context.Context, seen *Observed) error {
	seen.Routes = map[string]*unstructured.Unstructured{}
	canary := seen.Rollout.Spec.Strategy.Canary
	if canary == nil {
		return nil
	}
	for _, name := range routeNames(canary.TrafficRouting) {
		route, err := r.cluster.Dynamic.Resource(httpRoutes).Namespace(seen.Rollout.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			seen.Routes[name] = route
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the HTTPRoute %s: %w", name, err)
		}
	}
	return nil
}

// pods lists the Pods of Rollouts if the spec gives them metadata by their role, or if
// they are restarted.
func (r reader) pods(ctx context.Context, seen *Observed) error {
	forNew, forStable := roleMetadata(&seen.Rollout.Spec)
	if forNew == nil && forStable == nil && !needsRestart(seen.Rollout, seen.Now) {
		return nil
	}
	list, err := r.cluster.Client.CoreV1().Pods(seen.Rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelHash})
	if err != nil {
		return fmt.Errorf("list the Pods: %w", err)
	}
	for i := range list.Items {
		seen.Pods = append(seen.Pods, &list.Items[i])
	}
	return nil
}

// equal finds a ReplicaSet of the Rollout with the same template under another hash.
// Libraries of another version can hash the same template differently, and a new
// ReplicaSet would be an update that was not requested. The API server adds its
// defaults to the template in a dry run.
func (r reader) equal(ctx context.Context, seen *Observed) error {
	rollout := seen.Rollout
	hash := templateHash(&rollout.Spec.Template, rollout.Status.CollisionCount)
	var own []*appsv1.ReplicaSet
	for _, set := range seen.ReplicaSets {
		if !metav1.IsControlledBy(set, rollout) {
			continue
		}
		if hashOf(set) == hash {
			return nil
		}
		own = append(own, set)
	}
	if len(own) == 0 || rollout.Spec.Selector == nil {
		return nil
	}
	template := *rollout.Spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, hash)
	selector := rollout.Spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, hash)
	trial := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: rollout.Name + "-", Namespace: rollout.Namespace},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: selector, Template: template},
	}
	defaulted, err := r.cluster.Client.AppsV1().ReplicaSets(rollout.Namespace).Create(ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return nil // the real creation reports it
	}
	if err != nil {
		return fmt.Errorf("complete the template: %w", err)
	}
	for _, set := range own {
		bare := set.DeepCopy()
		removeInjected(bare)
		if sameTemplate(&bare.Spec.Template, &defaulted.Spec.Template) {
			seen.Equal = hashOf(set)
		}
	}
	return nil
}

// removeInjected removes metadata of a role from a template.
func removeInjected(set *appsv1.ReplicaSet) {
	var had v1alpha1.PodTemplateMetadata
	if json.Unmarshal([]byte(set.Annotations[annotationEphemeral]), &had) == nil {
		metadataChanges(&set.Spec.Template.ObjectMeta, had, v1alpha1.PodTemplateMetadata{})
	}
}
