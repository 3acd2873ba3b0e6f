package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// restarting is an observation of a complete Rollout with Pods that are older than
// restartAt.
func restarting(t *testing.T, strategy string, after time.Duration) Observed {
	t.Helper()
	seen := withSets(t, strings.Replace(analysed, "STRATEGY", strategy, 1), 0)
	at := metav1.NewTime(seen.Now.Add(after))
	seen.Rollout.Spec.RestartAt = &at
	hash := seen.Rollout.Status.CurrentPodHash
	seen.Rollout.Status.StableRS = hash
	for _, set := range seen.ReplicaSets {
		if hashOf(set) != hash {
			*set.Spec.Replicas = 0
			continue
		}
		set.UID = "set"
		for i := range 2 {
			seen.Pods = append(seen.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprint("pod-", i), CreationTimestamp: metav1.NewTime(seen.Now.Add(-time.Hour)),
					OwnerReferences: []metav1.OwnerReference{{UID: set.UID, Controller: new(true)}},
				},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(seen.Now.Add(-time.Minute))}}},
			})
		}
	}
	return seen
}

// evicted are the Pods that a decision evicts.
func evicted(decision Decision) []string {
	var names []string
	for _, write := range decision.Writes {
		if write.Evict {
			names = append(names, write.Name)
		}
	}
	return names
}

// TestRestart: as many Pods are evicted at a time as may be unavailable, one at least;
// a pass that evicts does nothing else, and the last one writes restartedAt.
func TestRestart(t *testing.T) {
	const one, two = "canary: {maxSurge: 1, maxUnavailable: 0}", "canary: {maxUnavailable: 2}"
	for name, test := range map[string]struct {
		strategy string
		after    time.Duration
		change   func(*Observed)
		want     []string
		restarts bool
	}{
		"one at a time":        {one, -time.Second, func(*Observed) {}, []string{"pod-0"}, false},
		"two at a time":        {two, -time.Second, func(*Observed) {}, []string{"pod-0", "pod-1"}, false},
		"of blue-green":        {"blueGreen: {activeService: active, maxUnavailable: 2}", -time.Second, func(*Observed) {}, []string{"pod-0", "pod-1"}, false},
		"one of blue-green":    {"blueGreen: {activeService: active}", -time.Second, func(*Observed) {}, []string{"pod-0"}, false},
		"later":                {two, time.Minute, func(*Observed) {}, nil, false},
		"done":                 {two, -time.Second, func(s *Observed) { s.Rollout.Status.RestartedAt = s.Rollout.Spec.RestartAt }, nil, true},
		"of another Rollout":   {two, -time.Second, func(s *Observed) { s.Pods[0].OwnerReferences[0].UID = "other" }, []string{"pod-1"}, false},
		"newer":                {two, -time.Second, func(s *Observed) { s.Pods[0].CreationTimestamp = *s.Rollout.Spec.RestartAt }, []string{"pod-1"}, false},
		"none is ready":        {two, -time.Second, func(s *Observed) { s.Pods[0].Status, s.Pods[1].Status = corev1.PodStatus{}, corev1.PodStatus{} }, nil, false},
		"one is not ready":     {one, -time.Second, func(s *Observed) { s.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse }, nil, false},
		"not for long enough":  {one, -time.Second, func(s *Observed) { s.Rollout.Spec.MinReadySeconds = 61 }, nil, false},
		"just long enough":     {one, -time.Second, func(s *Observed) { s.Rollout.Spec.MinReadySeconds = 60 }, []string{"pod-0"}, false},
		"one is being deleted": {two, -time.Second, func(s *Observed) { s.Pods[0].DeletionTimestamp = &metav1.Time{Time: s.Now} }, []string{"pod-1"}, false},
		"all are newer": {two, -time.Second, func(s *Observed) {
			for _, pod := range s.Pods {
				pod.CreationTimestamp = metav1.NewTime(s.Now)
			}
		}, nil, true},
	} {
		seen := restarting(t, test.strategy, test.after)
		seen.Services = map[string]*corev1.Service{"active": {Spec: corev1.ServiceSpec{Selector: map[string]string{labelHash: seen.Rollout.Status.CurrentPodHash}}}}
		test.change(&seen)
		// A changed minReadySeconds is one of the writes; the Rollout is complete otherwise.
		decision := Decide(seen)
		if got := evicted(decision); !slices.Equal(got, test.want) {
			t.Errorf("%s: it evicts %v, want %v", name, got, test.want)
		}
		isCanary := seen.Rollout.Spec.Strategy.Canary != nil
		if isCanary && (decision.Status == nil) != (len(test.want) > 0) {
			t.Errorf("%s: the status is %+v", name, decision.Status)
		}
		if decision.Status != nil && (decision.Status.RestartedAt != nil) != test.restarts {
			t.Errorf("%s: restartedAt is %v", name, decision.Status.RestartedAt)
		}
		if len(test.want) > 0 && decision.Again > restartInterval || test.after > 0 && (decision.Again == 0 || decision.Again > test.after+time.Second) {
			t.Errorf("%s: the next pass is after %s", name, decision.Again)
		}
	}
}

// TestEvictWithBudget: a Pod that a PodDisruptionBudget protects stays, and that is no
// error. One that is gone needs no eviction.
func TestEvictWithBudget(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: demo}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: demo}}}
---
apiVersion: v1
kind: Pod
metadata: {name: demo, labels: {app: demo}}
spec: {nodeSelector: {no: node}, containers: [{name: demo, image: none}]}
`)
	cluster.MakePodsReady(t, namespace, nil)
	programs.Eventually(t, func(ctx context.Context) error {
		pod, err := cluster.Client.CoreV1().Pods(namespace).Get(ctx, "demo", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New("the Pod does not run")
		}
		return err
	})
	w := writer{cluster.Cluster}
	for _, name := range []string{"demo", "absent"} {
		must.Get(w.one(t.Context(), namespace, Write{Resource: pods, Name: name, Evict: true}))(t)
	}
	pod := must.Get(cluster.Client.CoreV1().Pods(namespace).Get(t.Context(), "demo", metav1.GetOptions{}))(t)
	if pod.DeletionTimestamp != nil {
		t.Error("the Pod is deleted")
	}
	must.Do(t, cluster.Client.PolicyV1().PodDisruptionBudgets(namespace).Delete(t.Context(), "demo", metav1.DeleteOptions{}))
	must.Get(w.one(t.Context(), namespace, Write{Resource: pods, Name: "demo", Evict: true}))(t)
	if pod, err := cluster.Client.CoreV1().Pods(namespace).Get(t.Context(), "demo", metav1.GetOptions{}); err == nil && pod.DeletionTimestamp == nil {
		t.Error("the Pod is not deleted")
	}
}
