package rollout_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestArgoRolloutsController: its Deployment with replicas and its Lease that is renewed
// are seen; neither counts when the controller is gone.
func TestArgoRolloutsController(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace := cluster.Namespace(t)
	check := func(want string) {
		t.Helper()
		if got := must.Get(rollout.Other(t.Context(), cluster.Cluster, []string{namespace}))(t); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("the reason is %q, not %q", got, want)
		}
	}
	check("")
	deployment := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: rollouts, labels: {app.kubernetes.io/name: argo-rollouts}}, spec: {replicas: REPLICAS,
  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {no: node}, containers: [{name: c, image: none}]}}}}`
	cluster.Apply(t, namespace, strings.ReplaceAll(deployment, "REPLICAS", "1"))
	check("Deployment " + namespace + "/rollouts")
	cluster.Apply(t, namespace, strings.ReplaceAll(deployment, "REPLICAS", "0"))
	check("")
	holder, renewed, seconds := "one", metav1.NewMicroTime(time.Now()), int32(120)
	leases := cluster.Client.CoordinationV1().Leases(namespace)
	lease := must.Get(leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "argo-rollouts-controller-lock"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{}))(t)
	check("Lease " + namespace)
	renewed = metav1.NewMicroTime(time.Now().Add(-2 * time.Minute))
	lease.Spec.RenewTime = &renewed
	must.Get(leases.Update(t.Context(), lease, metav1.UpdateOptions{}))(t)
	check("")
}
