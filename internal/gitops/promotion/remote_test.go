package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/must"
)

// otherRuntime is a runtime with the Application of an environment, which its own engine
// syncs.
type otherRuntime struct {
	*world
	problem chan error // the next result, in place of the Applications; it stays until it is replaced
}

// moveTo gives an environment to another runtime.
func (w *world) moveTo(t *testing.T, runtime, environment, more string) *otherRuntime {
	t.Helper()
	other := *w
	other.namespace = w.Namespace(t)
	must.Do(t, w.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(w.namespace).Delete(t.Context(), "web-"+environment, metav1.DeleteOptions{}))
	other.application(t, "web-"+environment, w.repository.URL(), environment)
	w.remoteEnvironment(t, runtime, environment, more)
	other.startEngine(t)
	moved := &otherRuntime{world: &other, problem: make(chan error, 1)}
	moved.problem <- nil
	return moved
}

// remoteEnvironment makes an Environment one of another runtime.
func (w *world) remoteEnvironment(t *testing.T, runtime, environment, more string) {
	t.Helper()
	w.Apply(t, w.namespace, fmt.Sprintf("apiVersion: slipway.dev/v1alpha1\nkind: Environment\nmetadata: {name: %s}\nspec: {runtime: %s, destinations: [{namespaces: [%s]}], %s}\n", environment, runtime, w.targets[environment], more))
}

// respond replaces the result.
func (o *otherRuntime) respond(problem error) {
	<-o.problem
	o.problem <- problem
}

// read is what the platform would return.
func (o *otherRuntime) read(ctx context.Context, _, product string) ([]*v1alpha1.Application, error) {
	problem := <-o.problem
	o.problem <- problem
	if problem != nil {
		return nil, problem
	}
	listed, err := o.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: "codefresh.io/product=" + product})
	if err != nil {
		return nil, err
	}
	var apps []*v1alpha1.Application
	for _, one := range listed.Items {
		app, _, err := v1alpha1.Decode(one.Object)
		if err != nil {
			return nil, err
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// TestOtherRuntime: an environment of another runtime is promoted to by what the platform
// knows of it. Without a right nothing begins, and a platform that is away is waited for.
func TestOtherRuntime(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), nil)
	other := w.moveTo(t, "eu", "prod", "gates: {approval: true}")
	w.startEngine(t)
	w.setVersion(t, "v2")
	other.awaitSynced(t, "web-prod", "")
	other.respond(refusal.New("spec.runtime", refusal.NotAllowed, "add a rule"))
	w.start(t, func(options *promotion.Options) { options.Remote = other.read })
	w.promote(t, "first", "")
	w.awaitPhase(t, "first", slipway.PromotionPending, "spec.runtime: add a rule")
	other.respond(errors.New("the platform is away"))
	w.awaitPhase(t, "first", slipway.PromotionPending, "the platform is away")
	other.respond(nil)
	w.awaitPhase(t, "first", slipway.PromotionProgressing, "prod: waiting for approval")
	other.respond(errors.New("the platform is away"))
	w.patch(t, "first", `{"spec": {"approvals": [{"environment": "prod", "by": "grace"}]}}`)
	w.awaitPhase(t, "first", slipway.PromotionProgressing, "prod: it is tried again: the platform is away")
	if got := w.commits(t, "Promotion: "+w.namespace+"/first/prod"); len(got) > 0 {
		t.Errorf("prod was written: %v", got)
	}
	other.respond(nil)
	w.promoted(t, "first", "v2")
	// The other direction: a flow that begins with what the other runtime has.
	w.Apply(t, w.namespace, "apiVersion: codefresh.io/v1beta1\nkind: PromotionFlow\nmetadata: {name: pull}\nspec: {triggerEnvironment: prod, steps: [{environment: staging, dependsOn: [prod]}]}\n")
	w.awaitSynced(t, "web-staging", w.repository.Commit(t, map[string]string{"env/staging/config.yaml": config("staging", "v1")}, "back"))
	w.promote(t, "pulled", ", flow: pull")
	pulled := w.awaitPhase(t, "pulled", slipway.PromotionSucceeded, "v2 is in staging")
	if from := pulled.Status.Source; from.Namespace != "eu:"+other.namespace || len(w.commits(t, "Promotion: "+w.namespace+"/pulled/staging")) != 1 {
		t.Errorf("it comes from %+v", from)
	}
}

// TestOtherRuntimeRefused: what would need the other cluster, or a repository that the
// project here does not allow, is refused before anything is written.
func TestOtherRuntimeRefused(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), nil)
	other := w.moveTo(t, "eu", "prod", "project: narrow")
	w.startEngine(t)
	w.setVersion(t, "v2")
	other.awaitSynced(t, "web-prod", "")
	w.Apply(t, w.namespace, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: narrow}\nspec: {sourceRepos: ['https://example.com/*'], destinations: [{server: '*', namespace: '*'}]}\n")
	stop := w.start(t, func(options *promotion.Options) { options.Remote = other.read })
	head := w.repository.Head(t)
	w.promote(t, "run", "")
	w.awaitPhase(t, "run", slipway.PromotionPending, "project narrow does not allow the repository")
	stop()
	w.start(t, nil)
	w.awaitPhase(t, "run", slipway.PromotionPending, "the agent has no platform")
	w.remoteEnvironment(t, "eu", "prod", "gates: {traffic: {for: 1s}}")
	w.awaitPhase(t, "run", slipway.PromotionPending, "spec.gates.traffic: the edges of the runtime eu are not read from here")
	if got := w.repository.Head(t); got != head {
		t.Error("there was a commit")
	}
}
