package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/programs"
)

// TestPromote: a version goes through three environments, with one commit in each, and
// the rest of the files stays as it is.
func TestPromote(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), nil)
	w.startEngine(t)
	w.setVersion(t, "v2")
	pushed := make(chan string, 10)
	w.start(t, func(options *promotion.Options) { options.Pushed = func(url string) { pushed <- url } })
	w.promote(t, "first", "")
	w.promoted(t, "first", "v2")
	if url := programs.Receive(t, pushed, "the report of a push"); url != w.repository.URL() {
		t.Errorf("%s was pushed", url)
	}
	message := w.repository.Git(t, "log", "-1", "--format=%an%n%B", "main")
	want := "ada\npromote shop v2 to prod\n\nenv/prod/config.yaml\n\nPromoted-From: web-dev@"
	if !strings.HasPrefix(message, want) || !strings.Contains(message, "\nPromoted-By: ada\nPromotion: "+w.namespace+"/first/prod") {
		t.Errorf("the commit is\n%s\nwant\n%s", message, want)
	}
	w.event(t, "first", "PromotionStarted", "v2 of web-dev")
	w.event(t, "first", "PromotionSucceeded", "v2 is in staging, prod")
	// The same version again has nothing to write.
	w.promote(t, "second", "")
	again := w.awaitPhase(t, "second", slipway.PromotionSucceeded, "v2")
	if write := again.Status.Steps[0].Writes[0]; write.Commit != "" || !write.Done {
		t.Errorf("the second promotion has %+v", write)
	}
}

// TestFoundAgain: a commit that was overwritten after it was made is not made again by a
// process that does not know of it.
func TestFoundAgain(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), map[string]string{"prod": "approval: true"})
	w.startEngine(t)
	w.setVersion(t, "v2")
	stop := w.start(t, nil)
	w.promote(t, "run", "")
	before := w.awaitPhase(t, "run", slipway.PromotionProgressing, "prod: waiting for approval").Status.Steps[0]
	stop()
	// The state before the commit was recorded, with another commit behind it.
	commit := before.Writes[0].Commit
	w.awaitSynced(t, "web-staging", w.repository.Commit(t, map[string]string{"env/staging/config.yaml": config("staging", "v3")}, "by hand"))
	w.patchStatus(t, "run", fmt.Sprintf(`{"status": {"steps": [{"environment": "staging", "dependsOn": ["dev"], "action": "commit", "phase": "Writing", "applications": [%q], "startedAt": %q,
		"writes": [{"repository": %q, "branch": "main", "base": %q}]}, {"environment": "prod", "dependsOn": ["staging"], "action": "commit", "phase": "Pending", "applications": [%q]}]}}`,
		w.namespace+"/web-staging", time.Now().UTC().Format(time.RFC3339), before.Writes[0].Repository, before.Writes[0].Base, w.namespace+"/web-prod"))
	w.start(t, nil)
	w.await(t, "run", func(p *slipway.Promotion) error {
		if len(p.Status.Steps[0].Writes) != 1 || p.Status.Steps[0].Writes[0].Commit != commit {
			return fmt.Errorf("staging has %+v: %s", p.Status.Steps[0], p.Status.Message)
		}
		return nil
	})
	w.awaitPhase(t, "run", slipway.PromotionProgressing, "staging: waiting: web-staging is at")
	if got := len(w.commits(t, "Promotion: "+w.namespace+"/run/staging")); got != 1 {
		t.Errorf("there are %d commits", got)
	}
}

// TestGates: approval, window, time of health and traffic hold a promotion back.
func TestGates(t *testing.T) {
	w := newWorld(t)
	closed := `windows: [{kind: deny, schedule: "* * * * *", duration: 1h}]`
	w.objects(t, w.repository.URL(), map[string]string{"staging": closed, "prod": `approval: true, healthyFor: 1s, traffic: {for: 1s, minRequests: 10, maxErrorPercent: 10}`})
	w.startEngine(t)
	w.setVersion(t, "v2")
	var requests, failed atomic.Uint64
	reports := func(context.Context) ([]promotion.EdgeReport, error) {
		id := trafficreport.RouteID{Kind: "Ingress", Namespace: w.targets["prod"], Name: "web"}
		report := &trafficreport.Report{Started: time.Unix(1, 0), Table: &trafficreport.Table{Routes: []trafficreport.Route{{ID: id}}}}
		report.Counts = []trafficreport.RouteCount{{ID: id}}
		report.Counts[0].Statuses[2], report.Counts[0].Statuses[5] = requests.Load(), failed.Load()
		return []promotion.EdgeReport{{Edge: "one", Report: report}}, nil
	}
	w.repository.Commit(t, map[string]string{"env/prod/ingress.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {ingressClassName: none, rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}\nstatus: {loadBalancer: {ingress: [{ip: 127.0.0.1}]}}\n"}, "route")
	w.start(t, func(options *promotion.Options) { options.Traffic = reports })
	w.promote(t, "run", "")
	w.awaitPhase(t, "run", slipway.PromotionProgressing, "staging: waiting: the sync window deny * * * * * for 1h is open")
	w.Apply(t, w.namespace, "apiVersion: slipway.dev/v1alpha1\nkind: Environment\nmetadata: {name: staging}\nspec: {destinations: [{namespaces: ["+w.targets["staging"]+"]}], gates: {windows: []}}\n")
	w.awaitPhase(t, "run", slipway.PromotionProgressing, "prod: waiting for approval: slipway promote approve run prod")
	w.event(t, "run", "PromotionWaiting", "approve run prod")
	if got := w.commits(t, "Promotion: "+w.namespace+"/run/prod"); len(got) > 0 {
		t.Errorf("prod was written: %v", got)
	}
	w.patch(t, "run", `{"spec": {"approvals": [{"environment": "prod", "by": "grace"}]}}`)
	w.makeHealthy(t, "prod")
	w.awaitPhase(t, "run", slipway.PromotionProgressing, "prod: counting requests for 1s")
	requests.Store(100)
	failed.Store(5)
	done := w.awaitPhase(t, "run", slipway.PromotionSucceeded, "v2 is in staging, prod")
	if prod := done.Status.Steps[1]; prod.ApprovedBy != "grace" || prod.Requests != 105 || prod.Errors != 5 {
		t.Errorf("prod is %+v", prod)
	}
	// The next version has too many errors.
	w.setVersion(t, "v3")
	w.promote(t, "bad", `, approvals: [{environment: prod, by: grace}]`)
	w.awaitPhase(t, "bad", slipway.PromotionProgressing, "prod: counting requests")
	failed.Store(50)
	w.awaitPhase(t, "bad", slipway.PromotionFailed, "spec.gates.traffic: 45 of 45 requests failed, which is more than 10 %")
}

// makeHealthy gives the Ingress of an environment an address, without which it is
// Progressing.
func (w *world) makeHealthy(t *testing.T, environment string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		client := w.Client.NetworkingV1().Ingresses(w.targets[environment])
		found, err := client.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.LoadBalancer.Ingress = append(found.Status.LoadBalancer.Ingress[:0], ingressAddress)
		_, err = client.UpdateStatus(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// TestAbortAndOrder: promotions of a product wait for each other, and an aborted one
// writes nothing more.
func TestAbortAndOrder(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), map[string]string{"staging": "approval: true"})
	w.startEngine(t)
	w.setVersion(t, "v2")
	w.start(t, nil)
	w.promote(t, "first", "")
	w.awaitPhase(t, "first", slipway.PromotionProgressing, "waiting for approval")
	w.promote(t, "second", `, approvals: [{environment: staging, by: grace}]`)
	w.awaitPhase(t, "second", slipway.PromotionPending, "it waits for the Promotion first of the same Product")
	w.patch(t, "first", `{"spec": {"abort": true}}`)
	aborted := w.awaitPhase(t, "first", slipway.PromotionAborted, "it was aborted")
	if step := aborted.Status.Steps[0]; step.Phase != slipway.StepSkipped {
		t.Errorf("the step is %+v", step)
	}
	w.promoted(t, "second", "v2")
	if got := w.commits(t, "Promotion: "+w.namespace+"/first/staging"); len(got) > 0 {
		t.Errorf("an aborted promotion has %v", got)
	}
}

// TestRefused: what is not supported is refused by name, and nothing is committed.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.objects(t, w.repository.URL(), nil)
	w.startEngine(t)
	w.awaitSynced(t, "web-dev", "")
	w.Apply(t, w.namespace, `apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: hooks}
spec: {triggerEnvironment: dev, hooks: {onStart: x}, steps: [{environment: staging, dependsOn: [dev]}]}
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: pr}
spec: {triggerEnvironment: dev, steps: [{environment: staging, dependsOn: [dev], policy: {action: pr}}]}
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: nowhere}
spec: {triggerEnvironment: dev, steps: [{environment: qa, dependsOn: [dev]}]}
---
apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: empty}
spec: {promotionTemplate: {}, promotionFlows: [{name: to-prod}]}
`)
	w.start(t, nil)
	head := w.repository.Head(t)
	for name, tt := range map[string]struct{ spec, want string }{
		"product": {"{product: none}", "Product.codefresh.io none: there is no such object"},
		"hooks":   {"{product: shop, flow: hooks}", "PromotionFlow.codefresh.io hooks: spec.hooks: it is not supported: hooks are workflows"},
		"nowhere": {"{product: shop, flow: nowhere}", "Environment.slipway.dev qa: there is no such object"},
		"flow":    {"{product: shop, flow: missing}", "PromotionFlow.codefresh.io missing: there is no such object"},
		"empty":   {"{product: empty}", "has 0 Applications with the label codefresh.io/product: empty"},
	} {
		w.Apply(t, w.namespace, "apiVersion: slipway.dev/v1alpha1\nkind: Promotion\nmetadata: {name: "+name+"}\nspec: "+tt.spec+"\n")
		w.awaitPhase(t, name, slipway.PromotionPending, tt.want)
	}
	w.event(t, "hooks", "PromotionRefused", "hooks are workflows")
	if got := w.repository.Head(t); got != head {
		t.Error("there was a commit")
	}
	// What is repaired begins.
	w.Apply(t, w.namespace, "apiVersion: codefresh.io/v1beta1\nkind: PromotionFlow\nmetadata: {name: missing}\nspec: {triggerEnvironment: dev, steps: [{environment: staging, dependsOn: [dev]}]}\n")
	w.awaitPhase(t, "flow", slipway.PromotionSucceeded, "v1 is in staging")
}

// event waits for an Event about a Promotion.
func (w *world) event(t *testing.T, name, reason, part string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := w.Client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, one := range found.Items {
			if one.Regarding.Name == name && strings.Contains(one.Note, part) {
				return nil
			}
		}
		return errors.New("there is no Event " + reason + " with " + part)
	})
}
