package diagnosecmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/agent/division"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/kube"
)

// agentPods are the Pods of agents.
const agentPods = "app.kubernetes.io/part-of=slipway,app.kubernetes.io/component=agent"

// listObjects lists the objects of a kind. A kind that the cluster does not have has
// none; a list that fails skips the check, and is nil.
func (e *diagnosis) listObjects(ctx context.Context, check string, cluster *kube.Cluster, kind schema.GroupVersionResource) []unstructured.Unstructured {
	list, err := cluster.Dynamic.Resource(kind).List(ctx, metav1.ListOptions{Limit: mostObjects})
	switch {
	case apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0:
		e.add(check, checkSkipped, "there are no %s", kind.Resource)
		return nil
	case err != nil:
		e.add(check, checkSkipped, "%v", err)
		return nil
	}
	return list.Items
}

// imageEvents adds the Applications whose images could not be updated in the time that
// the API server keeps Events.
func (e *diagnosis) imageEvents(ctx context.Context, cluster *kube.Cluster) {
	for _, reason := range []string{"ImageUpdateRefused", "ImageUpdateFailed"} {
		for _, event := range events(ctx, cluster, reason) {
			e.add("image updates", checkWarning, "Application %s/%s: %s: change what the message names; the agent tries it again by itself",
				event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Message)
		}
	}
}

// events returns the newest Event of a reason for each object. Without the right to read
// them there are none.
func events(ctx context.Context, cluster *kube.Cluster, reason string) []corev1.Event {
	list, err := cluster.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason, Limit: mostObjects})
	if err != nil {
		return nil
	}
	newest := map[string]corev1.Event{}
	for _, event := range list.Items {
		key := event.InvolvedObject.Namespace + "/" + event.InvolvedObject.Name
		if known, found := newest[key]; !found || known.CreationTimestamp.Before(&event.CreationTimestamp) {
			newest[key] = event
		}
	}
	var all []corev1.Event
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, newest[key])
	}
	return all
}

// startEvents adds the Products whose promotions could not begin by themselves in the time
// that the API server keeps Events.
func (e *diagnosis) startEvents(ctx context.Context, cluster *kube.Cluster) {
	for _, event := range events(ctx, cluster, promotion.ReasonNotStarted) {
		e.add("promotions", checkWarning, "Product %s/%s: no promotion begins by itself: %s: repair the object that the message names; the agent reads it again by itself",
			event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Message)
	}
}

// promotions checks the newest Promotion of each product: older ones are history, and
// one that failed long ago would fail every diagnosis.
func (e *diagnosis) promotions(ctx context.Context, cluster *kube.Cluster) {
	const check = "promotions"
	kind := schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourcePromotion}
	newest := map[string]*slipway.Promotion{}
	for _, object := range e.listObjects(ctx, check, cluster, kind) {
		one := &slipway.Promotion{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, one); err != nil {
			continue // the schema of the API server admits no such object
		}
		key := one.Namespace + "/" + one.Spec.Product
		if known := newest[key]; known == nil || known.CreationTimestamp.Before(&one.CreationTimestamp) {
			newest[key] = one
		}
	}
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		one := newest[key]
		state, message := promotionState(one, time.Now())
		e.add(check, state, "Promotion %s/%s of %s: %s", one.Namespace, one.Name, one.Spec.Product, message)
	}
}

// promotionState returns the state of a Promotion, with what to do.
func promotionState(one *slipway.Promotion, now time.Time) (state, message string) {
	status := &one.Status
	again := fmt.Sprintf("repair that, and start another one: slipway promote start %s -n %s", one.Spec.Product, one.Namespace)
	switch {
	case status.Phase == slipway.PromotionFailed:
		return checkFailed, status.Message + ": " + again
	case status.Phase == "" && len(status.Conditions) == 0:
		return checkWarning, "no agent has read it: check that the agent runs and reads this namespace (applications.namespaces)"
	}
	for _, condition := range status.Conditions {
		if condition.Reason == "Refused" {
			return checkFailed, condition.Message + ": repair the object that the message names; the agent reads it again by itself"
		}
	}
	if status.Phase == slipway.PromotionProgressing && status.DeadlineAt != nil && status.DeadlineAt.Time.Before(now) {
		return checkWarning, "its deadline has passed, and the agent has not ended it: check that the agent runs"
	}
	if status.Message == "" {
		return checkOK, status.Phase
	}
	return checkOK, status.Phase + ": " + status.Message
}

// divisions compares the replicas that divide Applications with the agents that run. A
// replica with other settings reconciles nothing, which no other check shows.
func (e *diagnosis) divisions(ctx context.Context, cluster *kube.Cluster) {
	const check = "division"
	leases, err := cluster.Client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{LabelSelector: division.Label, Limit: mostObjects})
	if err != nil {
		e.add(check, checkSkipped, "%v", err)
		return
	}
	live := division.Observed(leases.Items, time.Now())
	if len(live) == 0 {
		e.add(check, checkSkipped, "no agents divide the Applications")
		return
	}
	pods, err := cluster.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: agentPods, Limit: mostObjects})
	if err != nil {
		e.add(check, checkSkipped, "%v", err)
		return
	}
	running := map[string]int{}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			running[pods.Items[i].Namespace]++
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(live)) {
		state, message := divisionState(live[namespace], running[namespace])
		e.add(check, state, "namespace %s: %s", namespace, message)
	}
}

// divisionState returns the state of a division with live members of running agents. An
// agent outside the cluster is no Pod.
func divisionState(live, running int) (state, message string) {
	switch {
	case live == 0 && running > 0:
		return checkWarning, fmt.Sprintf("none of %s takes part in the division that was there: with applications.divide off, delete the Leases with the label %s; otherwise read the agents' log",
			finding.Count(running, "agent", "agents"), division.Label)
	case live == 0:
		return checkFailed, "no agent renews its share, so that no Application is reconciled: check that the agents run"
	case live < running:
		return checkWarning, fmt.Sprintf("%d of %d agents share the Applications: give all replicas the same applications.divide and applications.divideTimeout, and read the log of the others", live, running)
	}
	return checkOK, finding.Count(live, "agent shares", "agents share") + " the Applications"
}

// previews checks the ApplicationSets that list pull requests. Their Applications are
// like all others and are not checked here.
func (e *diagnosis) previews(ctx context.Context, cluster *kube.Cluster) {
	const check = "previews"
	sets := 0
	for _, object := range e.listObjects(ctx, check, cluster, v1alpha1.SetResource()) {
		set, _, err := v1alpha1.DecodeSet(object.Object)
		if err != nil || !listsPulls(set) {
			continue
		}
		sets++
		state, message := setState(set)
		e.add(check, state, "ApplicationSet %s/%s: %s", set.Namespace, set.Name, message)
	}
	if sets == 0 {
		return
	}
	for _, event := range events(ctx, cluster, "PreviewNotReported") {
		e.add(check, checkWarning, "ApplicationSet %s/%s: %s: the token of the generator needs the right to comment on pull requests",
			event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Message)
	}
}

// listsPulls reports whether a set has a generator pullRequest, at any depth.
func listsPulls(set *v1alpha1.ApplicationSet) bool {
	found := false
	for i := range set.Spec.Generators {
		set.Spec.Generators[i].At("").Walk(func(g *v1alpha1.Generator) { found = found || g.PullRequest != nil })
	}
	return found
}

// setState returns the state of an ApplicationSet by its conditions, with what to do.
func setState(set *v1alpha1.ApplicationSet) (state, message string) {
	if len(set.Status.Conditions) == 0 {
		return checkWarning, "no agent has read it: check that the agent runs and reads this namespace (applications.namespaces)"
	}
	message = "up to date"
	for _, condition := range set.Status.Conditions {
		switch {
		case condition.Type == v1alpha1.SetConditionErrorOccurred && condition.Status == "True":
			return checkFailed, condition.Message + ": change what the message names; until then no preview comes or goes"
		case condition.Type == v1alpha1.SetConditionParametersGenerated:
			message = condition.Message
		}
	}
	return checkOK, message
}
