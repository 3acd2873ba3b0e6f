package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/rights"
)

// rbacConfig is the ConfigMap with a policy.csv.
func rbacConfig(policy string) []*corev1.ConfigMap {
	return []*corev1.ConfigMap{{
		ObjectMeta: metav1.ObjectMeta{Name: rights.ConfigMap, Namespace: "argocd", UID: "1"},
		Data:       map[string]string{"policy.csv": policy, "policy.default": ""},
	}}
}

// appProject is an AppProject with a role for a group.
func appProject(name, group string, policies ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"name": name, "namespace": "argocd", "uid": name},
		"spec": map[string]any{"roles": []any{
			map[string]any{"name": "team", "groups": []any{group}, "policies": policies},
		}},
	}}
}

// may decides about an Application for a group.
func (p *rightsPolicy) may(t *testing.T, group, action, object string) bool {
	t.Helper()
	policy := must.Get(p.policy())(t)
	return policy.Decide(rights.Request{Groups: []string{group}, Resource: rights.Applications, Action: action, Object: object}).Allowed
}

// TestRightsPolicy: nothing is decided before both kinds are read; then the
// ConfigMap and the roles of all projects count, and both are reported.
func TestRightsPolicy(t *testing.T) {
	p := &rightsPolicy{refused: func(object corev1.ObjectReference, text string) { t.Errorf("%s: %s", object.Name, text) }}
	if _, err := p.policy(); err == nil || p.report() != nil {
		t.Error("there is a policy before anything was read")
	}
	p.setProjects([]*unstructured.Unstructured{
		appProject("shop", "shop-team", "p, proj:shop:team, applications, sync, shop/*, allow"),
		{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": map[string]any{"name": "plain"}}},
	})
	if _, err := p.policy(); err == nil {
		t.Error("there is a policy before the ConfigMap was looked for")
	}
	p.setConfig(nil)
	if !p.may(t, "shop-team", "sync", "shop/web") || p.may(t, "shop-team", "sync", "bank/web") || p.may(t, "dev", "get", "shop/web") {
		t.Error("the role of the project does not count as it is written")
	}
	p.setConfig(rbacConfig("p, dev, applications, get, */*, allow\np, shop-team, applications, sync, shop/db, deny"))
	if !p.may(t, "dev", "get", "shop/web") || p.may(t, "shop-team", "sync", "shop/db") || !p.may(t, "shop-team", "sync", "shop/web") {
		t.Error("the ConfigMap does not count as it is written")
	}
	report := p.report()
	if len(report.GetProjects()) != 1 || report.GetProjects()[0].GetRoles()[0].GetGroups()[0] != "shop-team" || !strings.Contains(report.GetConfig()["policy.csv"], "dev") {
		t.Errorf("reported %v", report)
	}
	p.setConfig(nil)
	if p.may(t, "dev", "get", "shop/web") {
		t.Error("a ConfigMap that was deleted counts")
	}
	p.setConfig(rbacConfig(strings.Repeat("#", maxReportedRights)))
	if report := p.report(); !report.GetTooLarge() || len(report.GetProjects()) > 0 {
		t.Errorf("a policy that is too large is reported: %d bytes", len(report.String()))
	}
}

// TestRefusedRights: an object with lines that have no effect keeps its last
// valid rules, is reported once, and does not affect the others.
func TestRefusedRights(t *testing.T) {
	var reported []string
	p := &rightsPolicy{refused: func(object corev1.ObjectReference, text string) {
		reported = append(reported, object.Kind+" "+object.Name+": "+text)
	}}
	good := appProject("shop", "shop-team", "p, proj:shop:team, applications, sync, shop/*, allow")
	other := appProject("bank", "bank-team", "p, proj:bank:team, applications, get, bank/*, allow")
	p.setConfig(nil)
	p.setProjects([]*unstructured.Unstructured{good, other})
	broken := appProject("shop", "shop-team", "p, proj:shop:team, applications, sync, shop/*, allow", "p, proj:shop:team, applications, delte, shop/db, deny")
	for range 2 {
		p.setProjects([]*unstructured.Unstructured{broken, appProject("bank", "bank-team", "p, proj:bank:team, applications, sync, bank/*, allow")})
	}
	if len(reported) != 1 || !strings.HasPrefix(reported[0], "AppProject shop: ") || !strings.Contains(reported[0], "delte") {
		t.Errorf("reported %q", reported)
	}
	if !p.may(t, "shop-team", "sync", "shop/db") || !p.may(t, "bank-team", "sync", "bank/web") || p.may(t, "bank-team", "get", "bank/web") {
		t.Error("a broken project affects another, or has lost its rules")
	}
	// The first that is read has no last one.
	fresh := &rightsPolicy{refused: func(corev1.ObjectReference, string) {}}
	fresh.setConfig(nil)
	fresh.setProjects([]*unstructured.Unstructured{broken})
	if !fresh.may(t, "shop-team", "sync", "shop/web") {
		t.Error("the valid lines of the first version do not count")
	}
}
