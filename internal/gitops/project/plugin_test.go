package project_test

import (
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
)

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
