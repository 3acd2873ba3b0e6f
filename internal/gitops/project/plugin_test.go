package project_test

import (
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
)

// A project allows every plugin only if it allows everything, by each of its lists:
// a rule with ! in one of them, or a list with one kind, is a limit.
func TestOnlyUnlimitedProjectsAllowPlugins(t *testing.T) {
	const sources, targets, kinds = "sourceRepos: ['*']\n", "destinations: [{server: '*', namespace: '*'}%s]\n", "clusterResourceWhitelist: [{group: '*', kind: '*'}]\n"
	for spec, want := range map[string]bool{
		sources + fmt.Sprintf(targets, "") + kinds:                                                              true,
		sources + fmt.Sprintf(targets, "") + kinds + "namespaceResourceWhitelist: [{group: '*', kind: '*'}]":    true,
		sources + fmt.Sprintf(targets, "") + kinds + "namespaceResourceWhitelist: [{group: '*', kind: Pod}]":    false,
		sources + fmt.Sprintf(targets, "") + kinds + "namespaceResourceWhitelist: [{group: apps, kind: '*'}]":   false,
		sources + fmt.Sprintf(targets, ", {server: '!https://b', namespace: '*'}") + kinds:                      false,
		sources + fmt.Sprintf(targets, ", {name: '!b', namespace: '*'}") + kinds:                                false,
		sources + fmt.Sprintf(targets, ", {server: '*', namespace: '!b'}") + kinds:                              false,
		"sourceRepos: ['*', '!https://git.example/*']\n" + fmt.Sprintf(targets, "") + kinds:                     false,
		"sourceRepos: ['https://git.example/*']\n" + fmt.Sprintf(targets, "") + kinds:                           false,
		sources + "destinations: [{server: '*', namespace: a}]\n" + kinds:                                       false,
		sources + fmt.Sprintf(targets, "") + "clusterResourceWhitelist: [{group: '*', kind: Namespace}]\n":      false,
		sources + fmt.Sprintf(targets, "") + kinds + "clusterResourceBlacklist: [{group: '', kind: Namespace}]": false,
		sources + fmt.Sprintf(targets, "") + kinds + "namespaceResourceBlacklist: [{group: '', kind: Secret}]":  false,
	} {
		limits := compile(t, spec)
		if err := limits.AdmitPlugin("cdk"); (err == nil) != want {
			t.Errorf("%s\n%v", spec, err)
		}
		of := app(control, "https://git.other/a", "https://a|a")
		of.Spec.Source.Plugin = &v1alpha1.ApplicationSourcePlugin{Name: "cdk"}
		refused := refusal.Summary(limits.Check(of, control))
		if strings.Contains(refused, "plugin") == want {
			t.Errorf("%s\nthe Application: %s", spec, refused)
		}
	}
}

// TestAdmitPlugin: a project with limits may use the plugins that its annotation
// lists, and none without it; one without limits every plugin, unless its
// annotation lists some.
func TestAdmitPlugin(t *testing.T) {
	for _, one := range []struct {
		annotation string
		annotated  bool
		limited    bool
		want       bool
	}{
		{"", false, true, false}, {"", false, false, true}, {"", true, false, false}, {"sops", true, false, true},
		{"sops", true, true, true}, {"a, so*", true, true, true}, {"a,b", true, true, false}, {"*", true, true, true}, {"!a", true, true, false},
	} {
		given := &v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{
			SourceRepos: []string{"*"}, Destinations: []v1alpha1.ApplicationDestination{{Server: "*", Namespace: "*"}},
			ClusterResourceWhitelist: []v1alpha1.ClusterResourceRule{{Group: "*", Kind: "*"}},
		}}
		if one.limited {
			given.Spec.ClusterResourceWhitelist = nil
		}
		if one.annotated {
			given.Annotations = map[string]string{project.PluginsAnnotation: one.annotation}
		}
		compiled, _ := project.Compile(given)
		if got := compiled.AdmitPlugin("sops") == nil; got != one.want {
			t.Errorf("%+v: %t", one, got)
		}
	}
}
