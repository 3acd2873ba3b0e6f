package argosetting_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// upstream returns the text of a file of Argo CD's module.
func upstream(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), path)))(t))
}

// TestUpstream: the tables have every setting of the example files of Argo CD,
// and every field that it writes into Secrets of repositories.
func TestUpstream(t *testing.T) {
	for file, table := range map[string]argosetting.Table{
		"argocd-cm.yaml": argosetting.Config(), "argocd-cmd-params-cm.yaml": argosetting.Parameters(), "argocd-rbac-cm.yaml": argosetting.Policy(),
	} {
		var example struct{ Data map[string]string }
		must.Do(t, yaml.Unmarshal([]byte(upstream(t, "docs/operator-manual/"+file)), &example))
		if len(example.Data) < 4 {
			t.Errorf("%s has %d settings", file, len(example.Data))
		}
		for key := range example.Data {
			if _, known := table.Of(key, "x"); !known {
				t.Errorf("%s: there is no row for %s", file, key)
			}
		}
	}
	fields := regexp.MustCompile(`updateSecret\w+\(secretCopy, "(\w+)"`).FindAllStringSubmatch(upstream(t, "util/db/repository_secrets.go"), -1)
	if len(fields) < 40 {
		t.Errorf("Secrets have %d fields", len(fields))
	}
	for _, field := range fields {
		if _, known := argosetting.Repository().Of(field[1], "x"); !known {
			t.Errorf("there is no row for the field %s of a repository", field[1])
		}
	}
}

// TestOf: rows are found by their most specific key, and values that change
// nothing are the same.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		table      argosetting.Table
		key, value string
		want       argosetting.Effect
		known      bool
	}{
		{argosetting.Config(), "resource.customizations.health.batch_Job", "x", argosetting.Same, true},
		{argosetting.Config(), "resource.customizations.knownTypeFields.batch_Job", "x", argosetting.Same, true},
		{argosetting.Config(), "resource.customizations.wealth.batch_Job", "x", argosetting.NoEffect, false},
		{argosetting.Config(), "kustomize.enable", "true", argosetting.Same, true},
		{argosetting.Config(), "kustomize.enable", "false", argosetting.Differs, true},
		{argosetting.Config(), "kustomize.buildOptions", "--enable-helm", argosetting.Same, true},
		{argosetting.Config(), "kustomize.buildOptions", "--enable-helm --load-restrictor=LoadRestrictionsRootOnly --enable_exec=false", argosetting.Same, true},
		{argosetting.Config(), "kustomize.buildOptions", "--load-restrictor LoadRestrictionsNone --enable-helm", argosetting.Differs, true},
		{argosetting.Config(), "kustomize.buildOptions", "--reorder none -o /tmp", argosetting.NoEffect, true},
		{argosetting.Config(), "kustomize.buildOptions", "--enable-exec --reorder none", argosetting.Differs, true},
		{argosetting.Config(), "kustomize.buildOptions", "-e A=b", argosetting.Differs, true},
		{argosetting.Config(), "kustomize.buildOptions", "--enable_kyaml true", argosetting.Differs, true},
		{argosetting.Config(), "kustomize.buildOptions.v3.9.1", "--enable-helm", argosetting.Differs, true},
		{argosetting.Config(), "helm.valuesFileSchemes", "http, https", argosetting.Same, true},
		{argosetting.Config(), "helm.valuesFileSchemes", "https", argosetting.Differs, true},
		{argosetting.Config(), "helm.valuesFileSchemes", "https, http, secrets+gpg-import", argosetting.Differs, true},
		{argosetting.Config(), "url", " \n", argosetting.Same, true},
		{argosetting.Config(), "url", "https://argocd.example.com", argosetting.NoEffect, true},
		{argosetting.Parameters(), "controller.sync.timeout.seconds", "60", argosetting.Differs, true},
		{argosetting.Parameters(), "controller.status.processors", "60", argosetting.NoEffect, true},
		{argosetting.Policy(), "policy.teams.csv", "x", argosetting.Same, true},
		{argosetting.Repository(), "useAzureWorkloadIdentity", "true", argosetting.Refused, true},
		{argosetting.Repository(), "useAzureWorkloadIdentity", "false", argosetting.Same, true},
		{argosetting.Cluster(), "config.proxyUrl", "http://x", argosetting.Refused, true},
	} {
		got, known := tt.table.Of(tt.key, tt.value)
		if got.Effect != tt.want || known != tt.known || (got.Text == "") != (tt.want == argosetting.Same) {
			t.Errorf("%s with %q is %+v, %v", tt.key, tt.value, got, known)
		}
	}
	if got, _ := argosetting.Config().Of("kustomize.buildOptions", "--reorder none -e A=b --mount x --magic --enable-helm"); got.Text !=
		"--reorder: objects are applied by phase, wave and kind; "+
			"--env: plugins and functions are programs, which are not run: commit what they generate, or use a config management plugin; "+
			"--mount: plugins and functions are programs, which are not run: commit what they generate, or use a config management plugin; "+
			"--magic: kustomize build has no such option: look for a misspelling, or remove it" {
		t.Errorf("options are described as %s", got.Text)
	}
	table := argosetting.Config()
	if timeout, address := table.Rank("timeout.reconciliation"), table.Rank("url"); timeout < 0 || timeout >= address {
		t.Errorf("what concerns delivery is at %d, and an address at %d", timeout, address)
	}
}
