package project_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// decoded reads an AppProject from the YAML of its spec. Its label tier is "all".
func decoded(t *testing.T, name, spec string) *project.Decoded {
	t.Helper()
	var content map[string]any
	must.Do(t, yaml.Unmarshal([]byte(spec), &content))
	made, refused, err := v1alpha1.DecodeProject(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindAppProject, "spec": content,
		"metadata": map[string]any{"name": name, "namespace": control, "labels": map[string]any{"tier": "all"}},
	})
	must.Do(t, err)
	return &project.Decoded{AppProject: made, Refused: refused}
}

// compileGlobal compiles the project team with the global project base.
func compileGlobal(t *testing.T, setting, team, base string) (*project.Project, []refusal.Refusal) {
	t.Helper()
	global := decoded(t, "base", base)
	return project.ReadGlobals(setting).Compile(*decoded(t, "team", team), func(name string) *project.Decoded {
		if name != "base" {
			return nil
		}
		return global
	})
}

const (
	matching = "[{projectName: base, labelSelector: {matchExpressions: [{key: tier, operator: In, values: [all, some]}]}}]"
	open     = "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]\nclusterResourceWhitelist: [{group: '*', kind: '*'}]\n"
)

// TestGlobalLists: each list of a global project counts for what it is merged into.
func TestGlobalLists(t *testing.T) {
	const (
		deployment  = "apps/v1 Deployment x/a"
		clusterRole = "rbac.authorization.k8s.io/v1 ClusterRole /a"
	)
	kind := func(object string) func(*project.Project) bool {
		return func(p *project.Project) bool { return ask(p.Gate(to("|x"), true), object, control) == nil }
	}
	source := func(repository string) func(*project.Project) bool {
		return func(p *project.Project) bool {
			_, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: repository})
			return err == nil
		}
	}
	for _, test := range []struct {
		name, team, base string
		allowed          func(*project.Project) bool
		// without is the result of team alone, and with that of both.
		without, with bool
	}{
		{"a source more", "sourceRepos: ['https://a.example/*']", "sourceRepos: ['https://b.example/*']", source("https://b.example/x"), false, true},
		{"a source less", "sourceRepos: ['*']", "sourceRepos: ['!https://b.example/*']", source("https://b.example/x"), true, false},
		{"a destination more", "destinations: [{server: '*', namespace: other}]", "destinations: [{server: '*', namespace: x}]", kind(deployment), false, true},
		{"a destination less", open, "destinations: [{server: '*', namespace: '!x'}]", kind(deployment), true, false},
		{"a kind of clusters more", "destinations: [{server: '*', namespace: '*'}]", "clusterResourceWhitelist: [{group: '*', kind: ClusterRole}]", kind(clusterRole), false, true},
		{"a kind of clusters less", open, "clusterResourceBlacklist: [{group: '*', kind: ClusterRole}]", kind(clusterRole), true, false},
		{"a list of kinds", open, "namespaceResourceWhitelist: [{group: '', kind: ConfigMap}]", kind(deployment), true, false},
		{"a kind more", open + "namespaceResourceWhitelist: []", "namespaceResourceWhitelist: [{group: apps, kind: '*'}]", kind(deployment), false, true},
		{"a kind less", open, "namespaceResourceBlacklist: [{group: apps, kind: '*'}]", kind(deployment), true, false},
		{"an empty list stays", open + "namespaceResourceWhitelist: []", "{}", kind(deployment), false, false},
		{"an empty list of the global one is none", open, "namespaceResourceWhitelist: []", kind(deployment), true, true},
		{"a window", open, "syncWindows: [{kind: deny, schedule: '* * * * *', duration: 1h, applications: ['*']}]",
			func(p *project.Project) bool { return len(p.Windows()) == 0 }, true, false},
		{"a ServiceAccount", open, "destinationServiceAccounts: [{server: '*', namespace: '*', defaultServiceAccount: robot}]",
			func(p *project.Project) bool { _, name, _ := p.ServiceAccount(to("|x")); return name == "" }, true, false},
		{"namespaces of Applications are not merged", "sourceRepos: ['*']", "sourceNamespaces: ['*']",
			func(p *project.Project) bool { return p.AllowsNamespace("x") }, false, false},
		{"own clusters only is not merged", open, "permitOnlyProjectScopedClusters: true", kind(deployment), true, true},
	} {
		for setting, want := range map[string]bool{"": test.without, matching: test.with} {
			compiled, refused := compileGlobal(t, setting, test.team, test.base)
			if got := test.allowed(compiled); got != want || len(refused) > 0 {
				t.Errorf("%s with the setting %q: %v, want %v; refused is %s", test.name, setting, got, want, refusal.Summary(refused))
			}
		}
	}
	compiled, _ := compileGlobal(t, matching, open, "namespaceResourceBlacklist: [{group: apps, kind: '*'}]")
	if got := ask(compiled.Gate(to("|x"), true), deployment, control); !strings.Contains(got.Message, "team with its global projects base forbids Deployment") {
		t.Errorf("the message does not name the global project: %v", got)
	}
}

// TestGlobalFieldsOfUpstream: Argo CD merges the lists that the test above has, and no others.
func TestGlobalFieldsOfUpstream(t *testing.T) {
	text := string(must.Get(os.ReadFile(filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "util/argo/argo.go")))(t))
	_, text, _ = strings.Cut(text, "\nfunc mergeVirtualProject(")
	text, _, _ = strings.Cut(text, "\n}")
	var fields []string
	for _, match := range regexp.MustCompile(`proj\.Spec\.(\w+) = append\(proj\.Spec\.\w+, globalProj\.Spec\.`).FindAllStringSubmatch(text, -1) {
		fields = append(fields, match[1])
	}
	slices.Sort(fields)
	want := []string{"ClusterResourceBlacklist", "ClusterResourceWhitelist", "DestinationServiceAccounts", "Destinations",
		"NamespaceResourceBlacklist", "NamespaceResourceWhitelist", "SourceRepos", "SyncWindows"}
	if !slices.Equal(fields, want) || strings.Count(text, "proj.Spec") != 2*len(want) {
		t.Errorf("Argo CD merges %v", fields)
	}
}

// TestGlobalProjectsOfProject: which projects have which global ones.
func TestGlobalProjectsOfProject(t *testing.T) {
	for _, test := range []struct {
		setting, name string
		labels        map[string]string
		want          string
	}{
		{"", "team", nil, ""},
		{"[]", "team", nil, ""},
		{"[{projectName: a}]", "team", nil, "a"},
		{"[{projectName: a, labelSelector: {}}]", "team", nil, "a"},
		{"[{projectName: team}]", "team", nil, ""},
		{"[{projectName: a}, {projectName: b}]", "a", nil, "b"},
		{"[{projectName: a, labelSelector: {matchLabels: {x: on1}}}, {projectName: b, labelSelector: {matchLabels: {x: z}}}]", "team", map[string]string{"x": "z"}, "b"},
		{"[{projectName: a, labelSelector: {matchLabels: {x: on1}, matchExpressions: [{key: q, operator: DoesNotExist}]}}]", "team", map[string]string{"x": "on1"}, "a"},
		{"[{projectName: a, labelSelector: {matchLabels: {x: on1}, matchExpressions: [{key: q, operator: DoesNotExist}]}}]", "team", map[string]string{"x": "on1", "q": ""}, ""},
	} {
		read := project.ReadGlobals(test.setting)
		got := strings.Join(read.Of(&v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: test.labels}}), ",")
		if got != test.want || read.Problem() != nil {
			t.Errorf("%s with %v has %q, want %q: %v", test.setting, test.labels, got, test.want, read.Problem())
		}
	}
}

// TestGlobalsFailClosed: where a limit may be missing, nothing is allowed, and the reason is named.
func TestGlobalsFailClosed(t *testing.T) {
	for setting, want := range map[string]string{
		"projectName: base":              "cannot be read: it is no list of projectName and labelSelector",
		"[{projectName: base, labl: x}]": `unknown field "labl"`,
		"[{labelSelector: {}}]":          "[0].projectName is empty",
		"[{projectName: base, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]": "[0].labelSelector",
		"[{projectName: gone}]":                      "its global project gone does not exist",
		"[{projectName: gone}, {projectName: base}]": "its global project gone does not exist",
	} {
		compiled, refused := compileGlobal(t, setting, open, open)
		if text := refusal.Summary(refused); !strings.Contains(text, want) {
			t.Errorf("%s is refused with %q, want %q", setting, text, want)
		}
		if _, err := compiled.Admit(v1alpha1.ApplicationSource{RepoURL: "https://a.example/x"}); err == nil {
			t.Errorf("%s: a source is allowed", setting)
		}
		if ask(compiled.Gate(to("|x"), true), "v1 ConfigMap x/a", control) == nil {
			t.Errorf("%s: a kind is allowed", setting)
		}
	}
	_, refused := compileGlobal(t, matching, open, "sourceRepos: ['https://[']\nsourceIntegrity: {git: {}}")
	if text := refusal.Summary(refused); !strings.Contains(text, "its global project base is refused") || !strings.Contains(text, "spec.sourceRepos[0]") || !strings.Contains(text, "sourceIntegrity") {
		t.Errorf("a global project with an invalid rule: %s", text)
	}
}
