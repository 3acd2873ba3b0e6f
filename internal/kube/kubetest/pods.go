package kubetest

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"slipway.dev/slipway/internal/programs"
)

// podTick is how often MakePodsReady tries again, and looks whether it still has to sleep.
const podTick = 50 * time.Millisecond

// MakePodsReady stands in for the node of a cluster without one: until the test
// ends it marks the Pods of a namespace as running and ready, and those of Jobs
// as succeeded, though nothing runs. The controllers do the rest. It pauses while asleep returns true; nil
// is never.
func (c *Cluster) MakePodsReady(t testing.TB, namespace string, asleep func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	programs.Background(t, func() {
		for ctx.Err() == nil {
			c.markReady(ctx, namespace, asleep)
			pause(ctx)
		}
	}, stop)
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(podTick):
	}
}

// markReady writes the status of Pods that do not run yet, until its watch ends or a write
// fails: a new watch begins with all that are left.
func (c *Cluster) markReady(ctx context.Context, namespace string, asleep func() bool) {
	client := c.Client.CoreV1().Pods(namespace)
	pending, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodPending)})
	if err != nil {
		return
	}
	defer pending.Stop()
	for event := range pending.ResultChan() {
		pod, is := event.Object.(*corev1.Pod)
		if !is || event.Type == watch.Deleted {
			continue
		}
		for asleep != nil && asleep() && ctx.Err() == nil {
			pause(ctx)
		}
		patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
		if pod.Labels[batchv1.JobNameLabel] != "" {
			patch = `{"status":{"phase":"Succeeded"}}`
		}
		if _, err := client.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil && !apierrors.IsNotFound(err) {
			return
		}
	}
}
