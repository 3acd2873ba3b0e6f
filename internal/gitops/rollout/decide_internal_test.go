package rollout

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// TestTemplateHash: hashes are those of Argo Rollouts 1.10, so that its ReplicaSets are
// found.
func TestTemplateHash(t *testing.T) {
	var template corev1.PodTemplateSpec
	const text = `{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"name":"demo","image":"slipway.dev/demo:v1","ports":[{"name":"http","containerPort":8080}]}]}}`
	if err := json.Unmarshal([]byte(text), &template); err != nil {
		t.Fatal(err)
	}
	if hash := templateHash(&template, nil); hash != "6545c75764" {
		t.Errorf("the hash is %s", hash)
	}
	collisions := int32(1)
	if templateHash(&template, &collisions) == "6545c75764" {
		t.Error("a collision does not change the hash")
	}
}

// TestNearestSplit: the examples of Argo Rollouts' documentation, and its rules for ties
// and small numbers.
func TestNearestSplit(t *testing.T) {
	for _, test := range []struct{ replicas, weight, surge, canary, stable int32 }{
		{10, 10, 1, 1, 9}, {10, 5, 1, 1, 10}, {1, 5, 1, 1, 1}, {1, 5, 0, 0, 1}, {3, 50, 0, 2, 1}, {3, 50, 1, 2, 2},
		{5, 0, 1, 0, 5}, {5, 100, 1, 5, 0}, {0, 50, 1, 0, 0}, {2, 1, 0, 1, 1}, {2, 99, 0, 1, 1},
	} {
		if canary, stable := nearestSplit(test.replicas, test.weight, 100, test.surge); canary != test.canary || stable != test.stable {
			t.Errorf("%+v: %d and %d", test, canary, stable)
		}
	}
}

// observed is a Rollout with nothing beside it.
func observed(t *testing.T, text string) Observed {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	rollout, refused, err := v1alpha1.Decode(object)
	if err != nil {
		t.Fatal(err)
	}
	return Observed{Rollout: rollout, Refused: refused, Now: time.Now()}
}

const plain = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo, namespace: shop, generation: 1}
spec:
  replicas: 2
  selector: {matchLabels: {app: demo}}
  template: {metadata: {labels: {app: demo}}, spec: {containers: [{name: demo, image: demo:1}]}}
  strategy: {canary: {steps: [{setWeight: 50}]}}
`

// TestInvalid: a Rollout with something that is not done is left alone, and its status
// names the field.
func TestInvalid(t *testing.T) {
	for change, want := range map[string]string{
		"setWeight: 50>experiment: {templates: [{name: a}]}":            "spec.strategy.canary.steps[0].experiment: it is not supported",
		"setWeight: 50>setWeight: 101":                                  "SetWeight needs to be between 0 and 100",
		"setWeight: 50>setHeaderRoute: {name: a}":                       "setHeaderRoute: it is not supported",
		"setWeight: 50>setCanaryScale: {replicas: 1}":                   "SetCanaryScale requires TrafficRouting",
		"setWeight: 50>analysis: {templates: [{templateName: absent}]}": "AnalysisTemplate 'absent' not found",
		"canary: {>canary: {stableService: absent, ":                    `service "absent" not found`,
		"app: demo}}, spec>app: other}}, spec":                          "`selector` does not match template `labels`",
		"canary: {steps: [{setWeight: 50}]}>":                           "missing field '.spec.strategy.canary",
	} {
		old, replacement, _ := strings.Cut(change, ">")
		decision := Decide(observed(t, strings.Replace(plain, old, replacement, 1)))
		if decision.Status == nil || decision.Status.Phase != v1alpha1.PhaseDegraded || !strings.Contains(decision.Status.Message, want) || len(decision.Writes) > 0 || decision.Again == 0 {
			t.Errorf("%s: %+v, %d writes", change, decision.Status, len(decision.Writes))
		}
	}
}

// TestCreate: the first pass makes a ReplicaSet without Pods, and a ReplicaSet of another
// owner with its name is a collision.
func TestCreate(t *testing.T) {
	decision := Decide(observed(t, plain))
	if len(decision.Writes) != 2 || decision.Status == nil {
		t.Fatalf("%+v", decision)
	}
	set, ok := decision.Writes[0].Create.(*appsv1.ReplicaSet)
	if !ok || *set.Spec.Replicas != 0 || set.Annotations[annotationRevision] != "1" || set.Spec.Selector.MatchLabels[labelHash] != set.Labels[labelHash] {
		t.Errorf("%+v", decision.Writes[0])
	}
	seen := observed(t, plain)
	stranger := set.DeepCopy()
	stranger.OwnerReferences[0].UID = "another"
	seen.ReplicaSets = []*appsv1.ReplicaSet{stranger}
	if decision := Decide(seen); len(decision.Writes) > 0 || decision.Status.CollisionCount == nil || *decision.Status.CollisionCount != 1 {
		t.Errorf("%+v", decision)
	}
}

// TestMergePatch: only what differs is written, and what is gone is removed.
func TestMergePatch(t *testing.T) {
	patch := mergePatch(map[string]any{"a": 1.0, "b": map[string]any{"c": "x", "d": "y"}, "e": true}, map[string]any{"a": 1.0, "b": map[string]any{"c": "z"}, "f": "new"})
	text, _ := json.Marshal(patch)
	if string(text) != `{"b":{"c":"z","d":null},"e":null,"f":"new"}` {
		t.Errorf("%s", text)
	}
}
