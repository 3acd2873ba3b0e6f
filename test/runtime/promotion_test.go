package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// promoted are the namespaces that the environments of a product deploy to.
type promoted struct{ dev, prod string }

// testPromotion: a version goes from an environment of east to one of west, by what west
// reports to the platform. Nothing begins before west has a rule for it.
func (g *stage) testPromotion(t *testing.T) {
	repository := g.git.git.Repository(t, "team/promoted", map[string]string{"dev/settings.yaml": settings("v2"), "prod/settings.yaml": settings("v1")})
	to := promoted{g.east.cluster.Namespace(t), g.west.cluster.Namespace(t)}
	g.east.product(t, "dev", to.dev)
	g.west.product(t, "prod", to.prod)
	g.east.cluster.Apply(t, g.east.namespace, to.flow())
	head := repository.Head(t)
	g.east.awaitListed(t, "promoted-dev", head)
	g.west.awaitListed(t, "promoted-prod", head)

	g.east.promote(t, "start", "promoted", "--name=v2")
	rule := fmt.Sprintf("p, runtime:%s, applications, get, ", g.east.name)
	g.east.awaitPromotion(t, "add a rule to the policy of that runtime or of the platform, with their project: "+rule+"PROJECT/*, allow")
	g.west.cluster.Apply(t, g.west.namespace, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-rbac-cm}\ndata: {policy.csv: %q}\n", rule+"default/*, allow"))
	g.east.awaitPromotion(t, "waiting for approval")
	if now := repository.Head(t); now != head {
		t.Errorf("%s was committed before the approval", now)
	}
	g.east.promote(t, "approve", "v2", "prod")
	programs.Eventually(t, func(context.Context) error {
		if repository.Head(t) == head {
			return fmt.Errorf("nothing was committed")
		}
		return nil
	})
	// West gets no webhook for the commit.
	g.west.refresh(t, "promoted-prod")
	g.east.awaitPromotion(t, "Succeeded")
	if value, err := valueIn(t.Context(), g.west.cluster, to.prod); err != nil || value != "v2" {
		t.Errorf("the cluster of west has %q: %v", value, err)
	}
}

// product makes an Application of the product.
func (m *member) product(t *testing.T, environment, target string) {
	t.Helper()
	name := "promoted-" + environment
	manifest := applicationManifest(name, folder{m.stage.git.url("team/promoted"), environment}, inCluster, target)
	manifest = strings.Replace(manifest, "{name: "+name+"}", "{name: "+name+", labels: {codefresh.io/product: promoted}}", 1)
	m.cluster.Apply(t, m.namespace, manifest)
}

// flow is what east has: the product, its environments and their order.
func (p promoted) flow() string {
	return fmt.Sprintf(`apiVersion: slipway.dev/v1alpha1
kind: Environment
metadata: {name: dev}
spec: {destinations: [{namespaces: [%s]}]}
---
apiVersion: slipway.dev/v1alpha1
kind: Environment
metadata: {name: prod}
spec: {runtime: west, destinations: [{namespaces: [%s]}], gates: {approval: true}}
---
apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: promoted}
spec:
  promotionTemplate: {versionSource: {file: settings.yaml, jsonPath: $.data.value}, promotion: {settings.yaml: {jsonPaths: [$.data.value]}}}
  promotionFlows: [{name: to-prod}]
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: to-prod}
spec: {triggerEnvironment: dev, steps: [{environment: prod, dependsOn: [dev]}]}
`, p.dev, p.prod)
}

// promote runs slipway promote in the cluster of the runtime.
func (m *member) promote(t *testing.T, words ...string) {
	t.Helper()
	must.Get(m.tryPromote(t.Context(), words...))(t)
}

// tryPromote is promote with what it prints.
func (m *member) tryPromote(ctx context.Context, words ...string) (string, error) {
	words = append([]string{"promote"}, append(words, "-n", m.namespace)...)
	command := exec.CommandContext(ctx, m.stage.binary, words...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.stage.t.TempDir(), "KUBECONFIG=" + m.cluster.Kubeconfig}
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("slipway %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

// awaitPromotion waits until the promotion is described with a text.
func (m *member) awaitPromotion(t *testing.T, want string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		out, err := m.tryPromote(ctx, "get", "v2")
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("the promotion does not say %q:\n%s", want, out)
		}
		return err
	})
}
