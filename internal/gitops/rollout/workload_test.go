package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestWorkloadComesLater: a Rollout whose Deployment does not exist is invalid, and goes on
// as soon as it does: the Deployment is watched.
func TestWorkloadComesLater(t *testing.T) {
	cluster := newCluster(t, true)
	namespace := cluster.Namespace(t)
	cluster.MakePodsReady(t, namespace, nil)
	startOurs(t, cluster, namespace)
	await := func(phase, message string) {
		t.Helper()
		kubetest.WaitFor(t, cluster.Dynamic.Resource(v1alpha1.RolloutResource()).Namespace(namespace), kube.Named("demo"), 15*time.Second, func(found []*unstructured.Unstructured) error {
			if len(found) == 0 {
				return errors.New("there is no Rollout")
			}
			status, _, _ := unstructured.NestedMap(found[0].Object, "status")
			if is, _ := status["message"].(string); status["phase"] != phase || !strings.Contains(is, message) {
				return fmt.Errorf("the status is %v", status)
			}
			return nil
		})
	}
	rollout := `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: demo}, spec: {replicas: 1,
  workloadRef: {apiVersion: apps/v1, kind: KIND, name: demo, scaleDown: onsuccess}, strategy: {canary: {}}}}`
	cluster.Apply(t, namespace, strings.Replace(rollout, "KIND", "DaemonSet", 1))
	await(v1alpha1.PhaseDegraded, "workload of type apps/DaemonSet is not supported")
	cluster.Apply(t, namespace, strings.Replace(rollout, "KIND", "Deployment", 1))
	await(v1alpha1.PhaseDegraded, `deployments.apps "demo" not found`)
	cluster.Apply(t, namespace, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: demo}, spec: {replicas: 1, selector: {matchLabels: {app: demo}},
  template: {metadata: {labels: {app: demo}}, spec: {containers: [{name: demo, image: none}]}}}}`)
	await(v1alpha1.PhaseHealthy, "")
}
