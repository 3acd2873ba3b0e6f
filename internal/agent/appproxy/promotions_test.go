package appproxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// promoted is an Application of the Product web in an environment, which is the
// project, too.
const promoted = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web-%[1]s, labels: {codefresh.io/product: web}}
spec:
  project: %[1]s
  source: {repoURL: %[2]q, path: %[1]s, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %[1]s}
status:
  sync: {status: Synced, revision: %[3]s}
  health: {status: Healthy}
  history: [{id: 0, revision: %[3]s, deployedAt: "2026-01-01T10:00:00Z", initiatedBy: {username: grace}}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %[1]s}
spec: {sourceRepos: ["*"], destinations: [{server: "*", namespace: "*"}]}
---
apiVersion: slipway.dev/v1alpha1
kind: Environment
metadata: {name: %[1]s}
spec: {destinations: [{namespaces: [%[1]s]}], gates: {approval: %[4]v}}
---
`

// promotions is a Product whose version 2 is in staging and waits for prod.
const promotions = `apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: web}
spec:
  promotionTemplate:
    versionSource: {file: config.yaml, jsonPath: $.version}
    promotion: {config.yaml: {jsonPaths: [$.version]}}
  promotionFlows: [{name: to-prod}]
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: to-prod}
spec:
  triggerEnvironment: dev
  steps: [{environment: staging, dependsOn: [dev]}, {environment: prod, dependsOn: [staging]}]
---
apiVersion: slipway.dev/v1alpha1
kind: Promotion
metadata: {name: web-1}
spec: {product: web, by: ada}
status:
  phase: Progressing
  message: "prod: waiting for approval"
  flow: to-prod
  version: v2
  source: {environment: dev, namespace: NAMESPACE, application: web-dev, revision: aaaa}
  steps:
  - environment: staging
    phase: Succeeded
    applications: [NAMESPACE/web-staging]
    finishedAt: "2026-02-01T10:00:00Z"
    writes: [{repository: "https://git.example.com/shop", commit: bbbb, done: true}]
  - {environment: prod, phase: Waiting, applications: [NAMESPACE/web-prod], message: waiting for approval}
`

// newPromotionWorld has the Product web in three environments.
func newPromotionWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_*.yaml")
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/codefresh.io_*.yaml")
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"dev/config.yaml": "version: v2\n", "staging/config.yaml": "version: v2\n", "prod/config.yaml": "version: v1\n",
	})
	text := promotions
	for _, environment := range []string{"dev", "staging", "prod"} {
		text = fmt.Sprintf(promoted, environment, repository.URL(), repository.Head(t), environment == "prod") + text
	}
	w.apply(t, text)
	return w
}

func (w *world) promotions(t *testing.T, claims wire.RuntimeClaims) runtimev1connect.PromotionServiceClient {
	t.Helper()
	return runtimev1connect.NewPromotionServiceClient(w.httpWith(t, claims), w.address+"/app-proxy", readable())
}

// restricted are the claims of a user with these lines of a policy.
func restricted(lines ...string) wire.RuntimeClaims {
	return wire.RuntimeClaims{Role: permission.RoleRestricted, Policy: wire.PolicyExcerpt{Text: "p,ada@example.com,applications," + strings.Join(lines, "\np,ada@example.com,applications,") + "\n"}}
}

// boardText is what a response shows, in one line.
func boardText(response *runtimev1.ListPromotionsResponse) string {
	var words []string
	for _, product := range response.GetProducts() {
		for _, flow := range product.GetFlows() {
			words = append(words, product.GetName()+"/"+flow.GetName()+flag(flow.GetMayStart(), " start")+flow.GetProblem())
			for _, environment := range flow.GetEnvironments() {
				text := environment.GetName() + strings.Join(environment.GetGates(), "+")
				for _, app := range environment.GetApplications() {
					text += fmt.Sprintf(" %s %s by %s at %s%s", app.GetRef().GetName(), app.GetVersion(), app.GetBy(), app.GetSince().AsTime().Format("Jan"), flag(app.GetPromotion() != "", " "+app.GetPromotion()))
				}
				words = append(words, text)
			}
		}
	}
	for _, one := range response.GetPromotions() {
		words = append(words, one.GetName()+" "+one.GetVersion()+" "+one.GetPhase()+": "+one.GetMessage()+flag(one.GetMayAbort(), " abort"))
		for _, step := range one.GetSteps() {
			text := step.GetEnvironment() + " " + step.GetPhase() + flag(step.GetMayApprove(), " approve")
			for _, commit := range step.GetCommits() {
				text += " " + commit.GetCommit()
			}
			words = append(words, text)
		}
	}
	return strings.Join(words, "; ")
}

// TestPromotions: which version is where, by the rights on the Applications.
func TestPromotions(t *testing.T) {
	w := newPromotionWorld(t)
	for _, c := range []struct {
		name   string
		claims wire.RuntimeClaims
		want   string
	}{
		{"operator", wire.RuntimeClaims{Role: permission.RoleOperator},
			"web/to-prod start; dev web-dev v2 by grace at Jan; staging web-staging v2 by ada at Feb web-1; prodapproval web-prod v1 by grace at Jan; " +
				"web-1 v2 Progressing: prod: waiting for approval abort; staging Succeeded bbbb; prod Waiting approve"},
		{"viewer", wire.RuntimeClaims{Role: permission.RoleViewer},
			"web/to-prod; dev web-dev v2 by grace at Jan; staging web-staging v2 by ada at Feb web-1; prodapproval web-prod v1 by grace at Jan; " +
				"web-1 v2 Progressing: prod: waiting for approval; staging Succeeded bbbb; prod Waiting"},
		{"of staging", restricted("get,staging/*,allow"),
			"web/to-prod; dev; staging web-staging v2 by ada at Feb web-1; prodapproval; web-1 v2 Progressing: ; staging Succeeded bbbb; prod Waiting"},
		{"of prod", restricted("get,prod/*,allow", "action/slipway.dev/Promotion/approve,prod/*,allow"),
			"web/to-prod; dev; staging; prodapproval web-prod v1 by grace at Jan; web-1 v2 Progressing: ; staging Succeeded; prod Waiting approve"},
		{"of nothing", restricted("get,other/*,allow"), ""},
	} {
		response := must.Get(w.promotions(t, c.claims).ListPromotions(t.Context(), connect.NewRequest(&runtimev1.ListPromotionsRequest{})))(t)
		if got := boardText(response.Msg); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestPromotionActions: people start, approve and abort with the right of each, and are
// recorded.
func TestPromotionActions(t *testing.T) {
	w := newPromotionWorld(t)
	approver := w.promotions(t, restricted("get,prod/*,allow", "action/slipway.dev/Promotion/approve,prod/*,allow"))
	approve := func(client runtimev1connect.PromotionServiceClient, name, environment string) error {
		_, err := client.ApprovePromotion(t.Context(), connect.NewRequest(&runtimev1.ApprovePromotionRequest{Name: name, Environment: environment}))
		return err
	}
	abort := func(client runtimev1connect.PromotionServiceClient) error {
		_, err := client.AbortPromotion(t.Context(), connect.NewRequest(&runtimev1.AbortPromotionRequest{Name: "web-1"}))
		return err
	}
	start := func(client runtimev1connect.PromotionServiceClient, product, flow string) (string, error) {
		response, err := client.StartPromotion(t.Context(), connect.NewRequest(&runtimev1.StartPromotionRequest{Product: product, Flow: flow}))
		if err != nil {
			return "", err
		}
		return response.Msg.GetName(), nil
	}
	_, startErr := start(approver, "web", "")
	stranger := w.promotions(t, restricted("get,other/*,allow"))
	_, unseen := start(stranger, "web", "")
	operator := w.promotions(t, wire.RuntimeClaims{Role: permission.RoleOperator})
	_, noFlow := start(operator, "web", "none")
	for name, c := range map[string]struct {
		err  error
		want connect.Code
	}{
		"start without the right": {startErr, connect.CodePermissionDenied}, "start what is not seen": {unseen, connect.CodeNotFound},
		"a flow that the Product does not name": {noFlow, connect.CodeNotFound}, "abort without the right": {abort(approver), connect.CodePermissionDenied},
		"approve another environment": {approve(approver, "web-1", "staging"), connect.CodePermissionDenied}, "approve no environment": {approve(approver, "web-1", "qa"), connect.CodeNotFound},
		"approve what is not seen": {approve(stranger, "web-1", "prod"), connect.CodeNotFound},
	} {
		if connect.CodeOf(c.err) != c.want {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	must.Do(t, approve(approver, "web-1", "prod"))
	if err := approve(approver, "web-1", "prod"); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "by ada@example.com already") {
		t.Errorf("a second approval: %v", err)
	}
	must.Do(t, abort(operator))
	made := must.Get(start(operator, "web", "to-prod"))(t)
	if first, second := w.promotion(t, "web-1").Spec, w.promotion(t, made).Spec; !first.Abort ||
		!slices.Equal(first.Approvals, []v1alpha1.PromotionApproval{{Environment: "prod", By: "ada@example.com"}}) ||
		second.Product != "web" || second.Flow != "to-prod" || second.By != "ada@example.com" {
		t.Errorf("the first is %+v, the second %+v", first, second)
	}
}

// promotion reads a Promotion.
func (w *world) promotion(t *testing.T, name string) *v1alpha1.Promotion {
	t.Helper()
	resource := schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: v1alpha1.ResourcePromotion}
	object := must.Get(w.Dynamic.Resource(resource).Namespace(w.control).Get(t.Context(), name, metav1.GetOptions{}))(t)
	made := &v1alpha1.Promotion{}
	must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, made))
	return made
}
