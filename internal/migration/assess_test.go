package migration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/migration"
	"slipway.dev/slipway/internal/must"
)

// configMap is a manifest in Git.
func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {value: " + value + "}\n"
}

// TestProof: R121: an Application whose objects and health are those of Argo CD is the
// same; each difference is named with its diff.
func TestProof(t *testing.T) {
	w := newWorld(t, map[string]string{
		"shop/a.yaml":  configMap("shop", "one") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {selector: {app: shop}, ports: [{port: 80}]}\n",
		"drift/a.yaml": configMap("drift", "one"),
		"more/a.yaml":  configMap("more", "one") + "---\n" + configMap("extra", "one"),
		"less/a.yaml":  configMap("less", "one"),
		"ill/a.yaml":   configMap("ill", "one"),
		"broken/a.txt": "nothing",
	})
	w.deployed("shop", "ConfigMap", "shop", "data: {value: one}")
	w.deployed("shop", "Service", "shop", "spec: {selector: {app: shop}, ports: [{port: 80}]}")
	w.deployed("shop", "ConfigMap", "old", "data: {value: one}")
	w.application("shop", "", "ConfigMap shop", "Service shop Healthy")
	w.deployed("drift", "ConfigMap", "drift", "data: {value: two}")
	w.application("drift", "", "ConfigMap drift")
	w.deployed("more", "ConfigMap", "more", "data: {value: one}")
	w.application("more", "", "ConfigMap more")
	w.deployed("less", "ConfigMap", "less", "data: {value: one}")
	w.deployed("less", "ConfigMap", "gone", "data: {value: one}")
	w.application("less", "", "ConfigMap less", "ConfigMap gone", "ConfigMap shop")
	w.deployed("ill", "ConfigMap", "ill", "data: {value: one}")
	w.application("ill", "", "ConfigMap ill Degraded")
	w.application("pinned", ", kustomize: {version: v5.0.0}")
	w.application("hydrated", "}\n  sourceHydrator: {drySource: {repoURL: x, path: ., targetRevision: main}, syncSource: {targetBranch: main, path: x}")
	// Git goes on after Argo CD has compared: that is no difference.
	w.git.Commit(t, map[string]string{"shop/a.yaml": configMap("shop", "three")}, "later")
	report := w.assess()

	shop := object(t, report, "Application", "shop")
	if shop.Effect != argosetting.Same || !shop.Ready(false) || len(shop.Proof.Resources) != 2 || shop.Proof.Health != "Healthy" {
		t.Errorf("shop is %+v with %+v", shop, shop.Proof)
	}
	if got := field(t, shop, "spec.source.path"); got.Effect != argosetting.Same {
		t.Errorf("%+v", got)
	}
	if len(shop.Proof.Orphaned) != 1 || !strings.HasSuffix(shop.Proof.Orphaned[0], "/old") {
		t.Errorf("orphaned are %v", shop.Proof.Orphaned)
	}
	for _, tt := range []struct{ app, resource, text, diff string }{
		{"drift", "/drift", "the first sync would change it", "+  value: one"},
		{"more", "/extra", "Argo CD does not list it", "+  value: one"},
		{"less", "/gone", "a sync with prune would delete it", ""},
		{"less", "/shop", "Argo CD has it in Git", ""},
		{"ill", "/ill", "Argo CD reports Degraded", ""},
	} {
		app := object(t, report, "Application", tt.app)
		got := resource(t, app, tt.resource)
		if app.Effect != argosetting.Differs || app.Ready(false) || !app.Ready(true) || got.Effect != argosetting.Differs || !strings.Contains(got.Text, tt.text) || !strings.Contains(got.Diff, tt.diff) {
			t.Errorf("%s is %s, and %+v", tt.app, app.Effect, got)
		}
		if strings.Contains(got.Diff, "slipway.dev/app") {
			t.Errorf("the mark counts: %s", got.Diff)
		}
	}
	if got := resource(t, object(t, report, "Application", "less"), "/shop"); len(got.SharedWith) != 1 || got.SharedWith[0] != w.argo+"/shop" {
		t.Errorf("shared with %v", got.SharedWith)
	}
	if got := field(t, object(t, report, "Application", "pinned"), "spec.source.kustomize.version"); got.Effect != argosetting.NoEffect || got.Text == "" {
		t.Errorf("%+v", got)
	}
	refused := object(t, report, "Application", "hydrated")
	if got := field(t, refused, "spec.sourceHydrator"); refused.Effect != argosetting.Refused || got.Effect != argosetting.Refused || got.Text == "" || refused.Ready(true) || refused.Proof != nil {
		t.Errorf("%+v, %+v", refused, got)
	}
}

// TestMarks: objects that have other marks than those of the runtime are the same,
// and so are those that neither has in Git.
func TestMarks(t *testing.T) {
	w := newWorld(t, map[string]string{"bare/a.yaml": configMap("bare", "one"), "half/a.yaml": configMap("half", "one")})
	// Argo CD tracks it by a label only, and stores a health that has no rule here.
	w.cluster.Apply(t, w.target, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bare, labels: {app.kubernetes.io/instance: bare}}\ndata: {value: one}\n")
	w.deployed("bare", "ConfigMap", "old", "data: {value: one}")
	w.application("bare", "", "ConfigMap bare Healthy", "ConfigMap old pruned")
	// A move was interrupted after it had marked the objects.
	marks := "labels: {slipway.dev/app: " + tracking.App{Namespace: w.argo, Name: "half"}.Label() + "}, annotations: {argocd.argoproj.io/tracking-id: 'half:/ConfigMap:" + w.target + "/%s'}"
	for _, name := range []string{"half", "extra", "gone"} {
		w.cluster.Apply(t, w.target, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, "+marks+"}\ndata: {value: one}\n", name, name))
	}
	w.application("half", "", "ConfigMap half", "ConfigMap extra", "ConfigMap gone pruned")
	report := w.assess()
	bare := object(t, report, "Application", "bare")
	if old := resource(t, bare, "/old"); bare.Effect != argosetting.Same || len(bare.Proof.Resources) != 2 || old.Effect != argosetting.Same || old.Text == "" {
		t.Errorf("%+v", bare.Proof)
	}
	half := object(t, report, "Application", "half")
	for name, want := range map[string]argosetting.Effect{"/half": argosetting.Same, "/extra": argosetting.Differs, "/gone": argosetting.Same} {
		if got := resource(t, half, name); got.Effect != want {
			t.Errorf("%+v", got)
		}
	}
}

// TestUnproven: what could not be rendered or compared is not the same.
func TestUnproven(t *testing.T) {
	w := newWorld(t, map[string]string{"bad/kustomization.yaml": "resources: [missing.yaml]", "good/a.yaml": configMap("good", "one")})
	w.application("bad", "")
	w.application("elsewhere", ", directory: {recurse: true}")
	w.deployed("good", "ConfigMap", "good", "data: {value: one}")
	w.application("good", "", "ConfigMap good")
	report := w.assess()
	for _, name := range []string{"bad", "elsewhere"} {
		if got := object(t, report, "Application", name); got.Effect != argosetting.Differs || got.Proof.Failed == "" || got.Ready(false) {
			t.Errorf("%s is %+v, %+v", name, got, got.Proof)
		}
	}
	if got := object(t, report, "Application", "good"); !got.Ready(false) {
		t.Errorf("it suffers from the others: %+v, %+v", got, got.Proof)
	}
}

// TestHealthRules: the health rules of argocd-cm decide in the proof, as in Argo
// CD.
func TestHealthRules(t *testing.T) {
	w := newWorld(t, map[string]string{"shop/a.yaml": configMap("shop", "one")})
	w.deployed("shop", "ConfigMap", "shop", "data: {value: one}")
	w.application("shop", "", "ConfigMap shop Degraded")
	w.cluster.Apply(t, w.argo, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  resource.customizations.health.ConfigMap: 'return {status = \"Degraded\", message = obj.data.value}'\n")
	got := object(t, w.assess(), "Application", "shop")
	if one := resource(t, got, "/shop"); one.Effect != argosetting.Same || one.Health != "Degraded" {
		t.Errorf("%+v", one)
	}
	// The status of the Application has Healthy, and the rule gives Degraded.
	if got.Proof.Health != "Degraded" || got.Effect != argosetting.Differs {
		t.Errorf("%+v, %+v", got, got.Proof)
	}
}

const password = "correct-horse"

// installation has settings of every kind.
const installation = `apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data:
  url: https://argocd.example.com
  globalProjects: "[{projectName: all, labelSelector: {matchLabels: {tier: limited}}}]"
  resource.exclusions: "[{apiGroups: ['['], kinds: ['*'], clusters: ['*']}]"
  resource.compareoptions: "ignoreAggregatedRoles: true"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cmd-params-cm}
data: {application.namespaces: "team-*", controller.status.processors: "50"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm}
data:
  policy.csv: |
    p, role:dev, applications, get, */*, allow
    p, role:dev, applications, fly, */*, allow
  scopes: "[groups]"
---
apiVersion: v1
kind: Secret
metadata: {name: repo, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: "https://git.example.com/a", password: ` + password + `, enableLfs: "true", misspelt: x}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud, labels: {argocd.argoproj.io/secret-type: repo-creds}}
stringData: {url: "https://dev.azure.com/a", azureServicePrincipalClientID: ` + password + `}
---
apiVersion: v1
kind: Secret
metadata: {name: far, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {server: "https://far.example.com", project: team-a, shard: "1", config: '{"bearerToken": "` + password + `", "disableCompression": true, "proxyUrl": ""}'}
---
apiVersion: v1
kind: Secret
metadata: {name: proxied, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {server: "https://proxied.example.com", config: '{"bearerToken": "` + password + `", "proxyUrl": "http://proxy.example.com"}'}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec: {sourceRepos: ["*"], orphanedResources: {warn: true}, sourceIntegrity: {git: {policies: []}}, roles: [{name: dev, policies: ["p, proj:other:dev, applications, get, other/*, allow"]}]}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: both, labels: {tier: limited}}
spec: {sourceRepos: ["*"]}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: all}
spec: {generators: [{list: {elements: []}}], template: {metadata: {name: x}, spec: {project: default, destination: {}, source: {repoURL: "https://git.example.com/a", path: a}}}}
`

// TestSettings: every key and field of the settings has an effect, and no value
// of a Secret is in the report.
func TestSettings(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "a"})
	w.cluster.Apply(t, w.argo, installation)
	w.cluster.Apply(t, w.control, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: both}\nspec: {sourceRepos: [\"https://git.example.com/*\"]}\n")
	report := w.assess()
	for _, tt := range []struct {
		kind, name, field string
		want              argosetting.Effect
	}{
		{"ConfigMap", "argocd-cm", "url", argosetting.NoEffect},
		{"ConfigMap", "argocd-cm", "globalProjects", argosetting.Same},
		{"ConfigMap", "argocd-cm", "resource.exclusions", argosetting.Differs},
		{"ConfigMap", "argocd-cm", "resource.compareoptions", argosetting.Same},
		{"ConfigMap", "argocd-cmd-params-cm", "application.namespaces", argosetting.Differs},
		{"ConfigMap", "argocd-cmd-params-cm", "controller.status.processors", argosetting.NoEffect},
		{"ConfigMap", "argocd-rbac-cm", "data[policy.csv] line 2", argosetting.Refused},
		{"ConfigMap", "argocd-rbac-cm", "scopes", argosetting.NoEffect},
		{"Secret", "repo", "password", argosetting.Same},
		{"Secret", "repo", "enableLfs", argosetting.Same},
		{"Secret", "repo", "misspelt", argosetting.NoEffect},
		{"Secret", "cloud", "azureServicePrincipalClientID", argosetting.Refused},
		{"Secret", "far", "project", argosetting.Same},
		{"Secret", "far", "shard", argosetting.NoEffect},
		{"Secret", "far", "config.bearerToken", argosetting.Same},
		{"Secret", "far", "config.disableCompression", argosetting.NoEffect},
		{"Secret", "far", "config.proxyUrl", argosetting.Same},
		{"Secret", "proxied", "config.proxyUrl", argosetting.Refused},
		{"AppProject", "team", "spec.sourceRepos", argosetting.Same},
		{"AppProject", "team", "spec.orphanedResources", argosetting.NoEffect},
		{"AppProject", "team", "spec.sourceIntegrity", argosetting.Refused},
		{"AppProject", "team", "spec.roles[dev].policies[0]", argosetting.Refused},
		{"AppProject", "both", "", argosetting.Differs},
		{"AppProject", "both", "metadata.labels", argosetting.Differs},
		{"ApplicationSet", "all", "spec.generators[0].list.elements", argosetting.Same},
	} {
		got := field(t, object(t, report, tt.kind, tt.name), tt.field)
		if got.Effect != tt.want || (got.Text == "") != (tt.want == argosetting.Same) {
			t.Errorf("%s %s: %+v, and not %s", tt.kind, tt.name, got, tt.want)
		}
	}
	// What is below a field without an effect is not the same.
	for _, one := range object(t, report, "AppProject", "team").Fields {
		if strings.HasPrefix(one.Name, "spec.orphanedResources.") {
			t.Errorf("%+v", one)
		}
	}
	if text := string(must.Get(json.Marshal(report))(t)); strings.Contains(text, password) {
		t.Errorf("the report has a password: %s", text)
	}
	// One that can be copied as it is, and one that is made by hand.
	for name, fix := range map[string]string{"repo": "--copy-settings", "far": w.control} {
		secret := object(t, report, "Secret", name)
		if !slices.ContainsFunc(secret.Obstacles, func(f finding.Finding) bool {
			return f.Code == migration.CodeNotCopied && strings.Contains(f.Fix, fix)
		}) {
			t.Errorf("%s: %+v", name, secret.Obstacles)
		}
	}
	w.cluster.Apply(t, w.control, "apiVersion: v1\nkind: Secret\nmetadata: {name: limited, labels: {argocd.argoproj.io/secret-type: repository}}\nstringData: {url: https://git.example.com/a, project: team}\n")
	if repo := object(t, w.assess(), "Secret", "repo"); len(repo.Obstacles) == 0 {
		t.Error("a Secret of one project is none for all")
	}
	w.cluster.Apply(t, w.control, "apiVersion: v1\nkind: Secret\nmetadata: {name: other, labels: {argocd.argoproj.io/secret-type: repository}}\nstringData: {url: https://git.example.com/a/}\n")
	if repo := object(t, w.assess(), "Secret", "repo"); len(repo.Obstacles) > 0 {
		t.Errorf("the runtime has one: %+v", repo.Obstacles)
	}
}

// TestObstacles: what stops a move is in the report.
func TestObstacles(t *testing.T) {
	w := newWorld(t, map[string]string{"far/a.yaml": configMap("far", "one")})
	w.cluster.Apply(t, w.argo, strings.Replace(w.manifest("far", "", " []"), "https://kubernetes.default.svc", "https://far.example.com", 1))
	far := object(t, w.assess(), "Application", "far")
	if len(far.Obstacles) != 1 || far.Obstacles[0].Code != migrate.CodeElsewhere || !strings.Contains(far.Proof.Failed, "there is no cluster https://far.example.com") || far.Ready(true) {
		t.Errorf("%+v, %+v", far, far.Proof)
	}
}

// TestMissingCredentials: an Application whose repository a Secret of Argo CD opens
// waits until the runtime has one.
func TestMissingCredentials(t *testing.T) {
	w := newWorld(t, map[string]string{"shop/a.yaml": configMap("shop", "one")})
	w.deployed("shop", "ConfigMap", "shop", "data: {value: one}")
	w.application("shop", "", "ConfigMap shop")
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: repo, labels: {argocd.argoproj.io/secret-type: repository}}\nstringData: {url: '" + w.git.URL() + "', username: a, password: " + password + "}\n"
	w.cluster.Apply(t, w.argo, secret)
	shop := object(t, w.assess(), "Application", "shop")
	if shop.Effect != argosetting.Same || shop.Ready(false) || len(shop.Obstacles) != 1 || !strings.Contains(shop.Obstacles[0].Message, w.argo+"/repo") {
		t.Errorf("%+v, %+v", shop, shop.Proof)
	}
	w.cluster.Apply(t, w.control, secret)
	if shop := object(t, w.assess(), "Application", "shop"); !shop.Ready(false) {
		t.Errorf("%+v, %+v", shop, shop.Proof)
	}
}

// TestSets: a set is the same if the runtime generates what Argo CD has generated.
func TestSets(t *testing.T) {
	w := newWorld(t, map[string]string{"shop/a.yaml": configMap("shop", "one")})
	set := w.cluster.Apply(t, w.argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: all}
spec:
  goTemplate: true
  generators: [{git: {repoURL: %[1]q, revision: main, directories: [{path: "*"}]}}, {list: {elements: [{path: {basename: extra}}]}}]
  template:
    metadata: {name: "{{ .path.basename }}"}
    spec: {project: default, source: {repoURL: %[1]q, path: shop}, destination: {server: https://kubernetes.default.svc, namespace: %[2]s}}
`, w.git.URL(), w.target))[0]
	generated := func(name, path string) {
		w.cluster.Apply(t, w.argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, finalizers: [resources-finalizer.argocd.argoproj.io], ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: all, uid: %[2]s, controller: true}]}
spec: {project: default, source: {repoURL: %[3]q, path: %[4]s}, destination: {server: https://kubernetes.default.svc, namespace: %[5]s}}
`, name, set.GetUID(), w.git.URL(), path, w.target))
	}
	generated("shop", "shop")
	generated("old", "shop")
	generated("extra", "elsewhere")
	// Without finalizers the namespace can be deleted.
	defer func() {
		for _, name := range []string{"shop", "old", "extra"} {
			kubetest.Patch(t, argotest.Applications(w.cluster, w.argo), name, `{"metadata":{"finalizers":null}}`)
		}
	}()
	got := object(t, w.assess(), "ApplicationSet", "all")
	if one := resource(t, got, "/shop"); one.Effect != argosetting.Same {
		t.Errorf("%+v", one)
	}
	if one := resource(t, got, "/old"); one.Effect != argosetting.Differs || !strings.Contains(one.Text, "the runtime does not") {
		t.Errorf("%+v", one)
	}
	if one := resource(t, got, "/extra"); one.Effect != argosetting.Differs || !strings.Contains(one.Text, "spec.source.path") {
		t.Errorf("%+v", one)
	}
	if got.Effect != argosetting.Differs || len(got.Proof.Resources) != 3 || len(got.Obstacles) > 0 {
		t.Errorf("%+v, %+v", got, got.Proof)
	}
}
