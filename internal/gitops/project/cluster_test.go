package project_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/project"
)

// TestClusterScope: a cluster that belongs to a project is one of its destinations, and a
// project may be limited to such clusters, for Applications, objects and generators.
func TestClusterScope(t *testing.T) {
	const server = "https://[2001:db8::1]:6443"
	own, other, none := project.ClusterScope{Project: "team"}, project.ClusterScope{Project: "other"}, project.ClusterScope{}
	limited := project.ClusterScope{Project: "team", Namespaces: []string{"a", "b"}}
	const everywhere, only = "destinations: [{server: '*', namespace: '*'}]\n", "permitOnlyProjectScopedClusters: true\n"
	for _, tt := range []struct {
		spec      string
		scope     project.ClusterScope
		namespace string
		want      bool
		problem   string
	}{
		{"", own, "x", true, ""},
		{"", other, "x", false, "does not allow namespace x of the cluster"},
		{"", none, "x", false, "does not allow namespace x of the cluster"},
		{"", limited, "a", true, ""},
		{"", limited, "b", true, ""},
		{"", limited, "x", false, "does not allow namespace x"},
		{"destinations: [{server: '*', namespace: '!a'}]\n", limited, "a", false, "does not allow namespace a"},
		{everywhere, other, "x", true, ""},
		{everywhere + only, own, "x", true, ""},
		{everywhere + only, other, "x", false, "allows only clusters of its own: write project: team into the Secret"},
		{everywhere + only, none, "x", false, "allows only clusters of its own"},
		{only, own, "x", true, ""},
		{only, limited, "x", false, "does not allow namespace x"},
	} {
		at := compile(t, "sourceRepos: ['*']\nclusterResourceWhitelist: [{group: '*', kind: '*'}]\n"+tt.spec).At(server, tt.scope)
		refused := at.Check(app(control, "https://a/b", server+"|"+tt.namespace), control)
		if (len(refused) == 0) != tt.want || !tt.want && !strings.Contains(refused[0].Message, tt.problem) {
			t.Errorf("%s at %+v: %v", tt.spec, tt.scope, refused)
		}
		gate := at.Gate(to(server+"|"+tt.namespace), false)
		if refused := ask(gate, "v1 ConfigMap "+tt.namespace+"/a", control); (refused == nil) != tt.want {
			t.Errorf("%s at %+v: a ConfigMap: %v", tt.spec, tt.scope, refused)
		}
		if refused := ask(gate, "v1 Namespace /"+tt.namespace, control); (refused == nil) != tt.want {
			t.Errorf("%s at %+v: its Namespace: %v", tt.spec, tt.scope, refused)
		}
		if isOwn := tt.scope.Project == "team"; strings.Contains(tt.spec, only) && (ask(gate, "v1 Node /a", control) == nil) != isOwn {
			t.Errorf("%s at %+v: objects without a namespace are not decided by the owner", tt.spec, tt.scope)
		}
		if sees := at.AllowsCluster(server, ""); sees != (tt.want || tt.scope.Project == "team") {
			t.Errorf("%s at %+v: generators see it: %v", tt.spec, tt.scope, sees)
		}
	}
	if compile(t, everywhere+only+"sourceRepos: ['*']\nclusterResourceWhitelist: [{group: '*', kind: '*'}]\n").IsUnlimited() {
		t.Error("a project that may use clusters of its own only has no limits")
	}
}

// TestOnlyNamespaced: a cluster with namespaces gets no objects without one, but for these
// namespaces; also of a project without limits.
func TestOnlyNamespaced(t *testing.T) {
	const server = "https://far.example"
	gate := project.Default().At(server, project.ClusterScope{Namespaces: []string{"a"}, OnlyNamespaced: true}).Gate(to(server+"|a"), false)
	for object, want := range map[string]bool{"v1 ConfigMap a/x": true, "v1 Namespace /a": true, "v1 Namespace /b": false, "v1 Node /a": false, "other/v1 Namespace /a": false} {
		refused := ask(gate, object, control)
		if (refused == nil) != want || !want && !strings.Contains(refused.Message, "clusterResources") {
			t.Errorf("%s: %v", object, refused)
		}
	}
	gate = project.Default().At(server, project.ClusterScope{Namespaces: []string{"a"}}).Gate(to(server+"|a"), false)
	if refused := ask(gate, "v1 Node /a", control); refused != nil {
		t.Errorf("with clusterResources: %v", refused)
	}
}
