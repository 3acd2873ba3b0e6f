package promotion_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// automatic lets the promotions of the Product begin by themselves, with some flows.
func (w *world) automatic(t *testing.T, flows string) {
	t.Helper()
	w.Apply(t, w.namespace, "apiVersion: codefresh.io/v1beta1\nkind: Product\nmetadata: {name: shop, annotations: {slipway.dev/start: automatic}}\nspec: {promotionTemplateRef: shop, promotionFlows: ["+flows+"]}\n")
}

// setVersionOf commits a version to the trigger environment, and returns the name that a
// Promotion of it has when it begins by itself.
func (w *world) setVersionOf(t *testing.T, version string) string {
	t.Helper()
	commit := w.repository.Commit(t, map[string]string{"env/dev/config.yaml": config("dev", version)}, "version "+version)
	return "shop-" + commit[:12]
}

// exist checks the number of Promotions.
func (w *world) exist(t *testing.T, want int) {
	t.Helper()
	if found := must.Get(w.promotions().List(t.Context(), metav1.ListOptions{}))(t); len(found.Items) != want {
		var names []string
		for _, one := range found.Items {
			names = append(names, one.GetName())
		}
		t.Errorf("there are %d Promotions, and not %d: %v", len(found.Items), want, names)
	}
}

// awaitOther waits for another Promotion than the given one, and returns its name.
func (w *world) awaitOther(t *testing.T, than string) (name string) {
	t.Helper()
	kubetest.WaitFor(t, w.promotions(), metav1.ListOptions{}, programs.Timeout, func(found []*unstructured.Unstructured) error {
		for _, one := range found {
			if one.GetName() != than {
				name = one.GetName()
				return nil
			}
		}
		return errors.New("there is no other Promotion")
	})
	return name
}

// TestAutomatic: a version that comes to the trigger environment is promoted once, and
// another one only after it. One that was aborted does not come again.
func TestAutomatic(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), map[string]string{"prod": "approval: true"})
	w.automatic(t, `{name: to-prod, gitTriggerSelectors: [{key: commitMessage, operator: NotIn, values: ["*skip*"]}]}`)
	w.startEngine(t)
	stop := w.start(t, nil)
	first := w.setVersionOf(t, "v2")
	waiting := w.awaitPhase(t, first, slipway.PromotionProgressing, "prod: waiting for approval")
	if waiting.Spec.Flow != "to-prod" || waiting.Spec.By != "slipway (automatic)" {
		t.Errorf("the Promotion is %+v", waiting.Spec)
	}
	// The next version waits until the one before has ended.
	w.setVersionOf(t, "v3")
	w.awaitSynced(t, "web-dev", w.repository.Head(t))
	w.exist(t, 1)
	w.patch(t, first, `{"spec": {"approvals": [{"environment": "prod", "by": "grace"}]}}`)
	w.awaitPhase(t, first, slipway.PromotionSucceeded, "v2")
	second := w.awaitOther(t, first)
	w.awaitPhase(t, second, slipway.PromotionProgressing, "prod: waiting for approval")
	w.patch(t, second, `{"spec": {"abort": true}}`)
	w.awaitPhase(t, second, slipway.PromotionAborted, "aborted")
	// Neither a commit that the flow is not for, nor another one with the same version, which
	// the next process sees first: it knows as much as this one.
	w.awaitSynced(t, "web-dev", w.repository.Commit(t, map[string]string{"env/dev/config.yaml": config("dev", "v4")}, "v4, skip"))
	stop()
	w.awaitSynced(t, "web-dev", w.repository.Commit(t, map[string]string{"env/dev/config.yaml": config("dev", "v3"), "env/dev/other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"}, "v3 again"))
	w.start(t, nil)
	third := w.setVersionOf(t, "v5")
	w.awaitPhase(t, third, slipway.PromotionProgressing, "prod: waiting for approval")
	w.exist(t, 3)
}

// TestAutomaticRefused: what keeps promotions from beginning by themselves is an Event
// of the Product, and the repair lets them begin.
func TestAutomaticRefused(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), nil)
	w.automatic(t, "{name: missing}")
	w.startEngine(t)
	w.start(t, nil)
	name := w.setVersionOf(t, "v2")
	w.event(t, "shop", "PromotionNotStarted", "PromotionFlow.codefresh.io missing: there is no such object")
	w.exist(t, 0)
	w.automatic(t, "{name: to-prod}")
	w.promoted(t, name, "v2")
	w.exist(t, 1)
}
