package kubetest

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/programs"
)

// podTick is how often MakePodsReady looks for new Pods.
const podTick = 50 * time.Millisecond

// MakePodsReady stands in for the node of a cluster without one: until the test
// ends it marks the Pods of a namespace as running and ready, and those of Jobs
// as succeeded, though nothing runs. The controllers do the rest. It pauses while asleep returns true; nil
// is never.
func (c *Cluster) MakePodsReady(t testing.TB, namespace string, asleep func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	programs.Background(t, func() {
		ticks := time.NewTicker(podTick)
		defer ticks.Stop()
		for ctx.Err() == nil {
			if asleep == nil || !asleep() {
				c.markReady(ctx, namespace)
			}
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
	}, stop)
}

// markReady writes the status of Pods that do not run yet. A failure is
// repaired by the next call.
func (c *Cluster) markReady(ctx context.Context, namespace string) {
	client := c.Client.CoreV1().Pods(namespace)
	found, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, pod := range found.Items {
		if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
		if pod.Labels[batchv1.JobNameLabel] != "" {
			patch = `{"status":{"phase":"Succeeded"}}`
		}
		_, _ = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	}
}
