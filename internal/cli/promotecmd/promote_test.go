package promotecmd_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { clitest.Main(m) }

const objects = `apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: web}
spec: {promotionFlows: [{name: to-prod}]}
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
  source: {environment: dev, namespace: argocd, application: web-dev, revision: 111aaaa111111111111111111111111111111111}
  steps:
  - environment: staging
    phase: Succeeded
    action: commit
    finishedAt: "2026-01-01T10:00:00Z"
    writes: [{repository: "https://git.example.com/shop", commit: 222bbbb222222222222222222222222222222222, done: true}]
  - {environment: prod, phase: Waiting, action: commit, startedAt: "2026-01-01T10:00:00Z", message: waiting for approval}
`

type world struct {
	*kubetest.Cluster
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	cluster.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_*.yaml")
	cluster.DefineFiles(t, "../../../charts/gitops-runtime/crds/codefresh.io_*.yaml")
	w := &world{cluster, cluster.Namespace(t)}
	clitest.Clean(t)
	w.Apply(t, w.namespace, objects)
	return w
}

func (w *world) run(t *testing.T, line string) clitest.Result {
	t.Helper()
	return clitest.Run(t, "promote "+line+" --kubeconfig "+w.Kubeconfig+" -n "+w.namespace)
}

// promotion reads a Promotion.
func (w *world) promotion(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	resource := schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: v1alpha1.ResourcePromotion}
	return must.Get(w.Dynamic.Resource(resource).Namespace(w.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ line, want string }{
		{"list", `
NAME   PRODUCT  VERSION  STATUS       DONE  MESSAGE
web-1  web      v2       Progressing  1/2   prod: waiting for approval`},
		{"list -o name", "web-1"},
		{"get web-1", `
Name:        web-1
Namespace:   NAMESPACE
Product:     web
Flow:        to-prod
Version:     v2
Source:      web-dev in dev at 111aaaa
Started by:  ada
Status:      Progressing: prod: waiting for approval

ENVIRONMENT  STATUS     ACTION  COMMIT   SINCE                 APPROVED BY  MESSAGE
staging      Succeeded  commit  222bbbb  2026-01-01T10:00:00Z  -
prod         Waiting    commit  -        2026-01-01T10:00:00Z  -            waiting for approval`},
	} {
		got := w.run(t, c.line)
		if got.Code != 0 {
			t.Errorf("%s: %+v", c.line, got)
		}
		clitest.RequireText(t, strings.ReplaceAll(got.Stdout, w.namespace, "NAMESPACE"), c.want)
	}
	if got := w.run(t, "get none"); got.Code != 1 || !strings.Contains(got.Stderr, "there is no Promotion none") {
		t.Errorf("a missing one: %+v", got)
	}
}

// TestAct: a promotion is started, approved and aborted by the user whom the API server
// knows.
func TestAct(t *testing.T) {
	w := newWorld(t)
	if got := w.run(t, "start web --name web-2"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "web-2 started: slipway promote get web-2 -n "+w.namespace) {
		t.Fatalf("start: %+v", got)
	}
	by, _, _ := unstructured.NestedString(w.promotion(t, "web-2").Object, "spec", "by")
	if by == "" {
		t.Error("nobody started it")
	}
	for line, want := range map[string]string{"start none": "there is no Product none", "start web --name web-2": "there is a Promotion web-2 already", "approve web-1 qa": "has no environment qa"} {
		if got := w.run(t, line); got.Code != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := w.run(t, "approve web-1 prod"); got.Code != 0 || strings.TrimSpace(got.Stdout) != "web-1 approved for prod by "+by {
		t.Errorf("approve: %+v", got)
	}
	approvals, _, _ := unstructured.NestedSlice(w.promotion(t, "web-1").Object, "spec", "approvals")
	if len(approvals) != 1 || approvals[0].(map[string]any)["by"] != by {
		t.Errorf("the approvals are %v", approvals)
	}
	if got := w.run(t, "approve web-1 prod"); got.Code != 1 || !strings.Contains(got.Stderr, "already") {
		t.Errorf("a second approval: %+v", got)
	}
	if got := w.run(t, "abort web-1"); got.Code != 0 {
		t.Errorf("abort: %+v", got)
	}
	if isAborted, _, _ := unstructured.NestedBool(w.promotion(t, "web-1").Object, "spec", "abort"); !isAborted {
		t.Error("it is not aborted")
	}
}
