package loss

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// rolloutDoesNotBlock: a Rollout with an ordinary status, whose
// observedGeneration is text, lets the wave behind it begin.
func (s *suite) rolloutDoesNotBlock(t *testing.T) {
	target := s.cluster.Namespace(t)
	repository := s.git.Repository(t, "rollout", map[string]string{
		"app/rollout.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec: {replicas: 1}
status: {observedGeneration: "1", phase: Healthy, replicas: 1, updatedReplicas: 1, availableReplicas: 1}
`,
		"app/after.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: after, annotations: {argocd.argoproj.io/sync-wave: \"1\"}}\n",
	})
	s.cluster.Apply(t, s.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: rollout}
spec:
  project: default
  source: {repoURL: %q, path: app, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {}}
`, repository.URL(), target))
	agentprocess.Await(t, agentprocess.Applications(s.cluster.Cluster, s.control), "rollout", agentprocess.InOrder(repository.Head(t)))
	if !s.exists(t, target, "after") {
		t.Error("the wave behind the Rollout did not begin")
	}
}

// TestRolloutHealth goes through every combination of a phase and a form of
// observedGeneration: a generation that was observed, or that cannot be compared,
// never hides the phase, and only an older number is waited for.
func TestRolloutHealth(t *testing.T) {
	want := map[string]v1alpha1.HealthCode{
		"Healthy": v1alpha1.Healthy, "Progressing": v1alpha1.Progressing, "Paused": v1alpha1.Suspended, "Degraded": v1alpha1.Degraded,
	}
	observed := []struct {
		value any
		older bool
	}{
		{"4", false}, {int64(4), false}, {float64(4), false}, {"5", false}, {"7d9f8c", false}, {"", false}, {true, false},
		{"3", true}, {int64(3), true}, {float64(3), true},
	}
	for phase, expected := range want {
		for _, generation := range observed {
			rollout := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "web", "generation": int64(4)},
				"spec": map[string]any{}, "status": map[string]any{"phase": phase, "observedGeneration": generation.value},
			}}
			expected := expected
			if generation.older {
				expected = v1alpha1.Progressing
			}
			if got := health.NewRules(nil).Of(rollout, time.Now()); got == nil || got.Code != expected {
				t.Errorf("%s with observedGeneration %#v is %+v, want %s", phase, generation.value, got, expected)
			}
		}
	}
}
