package project_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// TestKindsAsDocumented: the lists of Argo CD, and what it means that one is
// empty or not there.
func TestKindsAsDocumented(t *testing.T) {
	const (
		configMap   = "v1 ConfigMap x/a"
		deployment  = "apps/v1 Deployment x/a"
		role        = "rbac.authorization.k8s.io/v1 Role x/a"
		clusterRole = "rbac.authorization.k8s.io/v1 ClusterRole /a"
		definition  = "apiextensions.k8s.io/v1 CustomResourceDefinition /a"
	)
	everything := []string{configMap, deployment, role, clusterRole, definition}
	for _, test := range []struct {
		lists   string
		allowed []string
		// field is what refusals name.
		field string
	}{
		{"", []string{configMap, deployment, role}, "spec.clusterResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]", everything, ""},
		{"clusterResourceWhitelist: []", []string{configMap, deployment, role}, "spec.clusterResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: 'apiextensions.k8s.io', kind: '*'}]", []string{configMap, deployment, role, definition}, "spec.clusterResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*', name: 'b*'}]", []string{configMap, deployment, role}, "spec.clusterResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nclusterResourceBlacklist: [{group: '*', kind: '*', name: a}]", []string{configMap, deployment, role}, "spec.clusterResourceBlacklist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nclusterResourceBlacklist: [{group: rbac.authorization.k8s.io, kind: ClusterRole}]", []string{configMap, deployment, role, definition}, "spec.clusterResourceBlacklist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nnamespaceResourceWhitelist: []", []string{clusterRole, definition}, "spec.namespaceResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nnamespaceResourceWhitelist: [{group: '', kind: ConfigMap}]", []string{configMap, clusterRole, definition}, "spec.namespaceResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nnamespaceResourceWhitelist: [{group: 'app*', kind: 'D*'}]", []string{deployment, clusterRole, definition}, "spec.namespaceResourceWhitelist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nnamespaceResourceBlacklist: [{group: '*', kind: Role}]", []string{configMap, deployment, clusterRole, definition}, "spec.namespaceResourceBlacklist"},
		{"clusterResourceWhitelist: [{group: '*', kind: '*'}]\nnamespaceResourceBlacklist: []", everything, ""},
	} {
		gate := compile(t, "destinations: [{server: '*', namespace: '*'}]\n"+test.lists).Gate(to("|x"), true)
		var allowed []string
		for _, object := range everything {
			refused := ask(gate, object, control)
			if refused == nil {
				allowed = append(allowed, object)
			} else if refused.Reason != refusal.NotAllowed || !strings.Contains(refused.Message, test.field) {
				t.Errorf("%s: %s: %v, want it to name %s", test.lists, object, refused, test.field)
			}
		}
		if strings.Join(allowed, ",") != strings.Join(test.allowed, ",") {
			t.Errorf("%s: allows %v, want %v", test.lists, allowed, test.allowed)
		}
	}
}

// The namespace of each object counts, not only that of the destination.
func TestNamespaceOfObjects(t *testing.T) {
	gate := compile(t, "clusterResourceWhitelist: [{group: '*', kind: '*'}]\ndestinations: [{server: '*', namespace: 'team-*'}, {server: '*', namespace: '!team-x'}]").Gate(to("|team-a"), true)
	for object, want := range map[string]bool{
		"v1 ConfigMap team-a/a": true, "v1 ConfigMap team-b/a": true, "v1 ConfigMap team-x/a": false, "v1 ConfigMap other/a": false,
		"v1 Namespace /team-b": true, "v1 Namespace /team-x": false, "v1 Namespace /other": false, "v1 Namespace team-a/other": false,
		"rbac.authorization.k8s.io/v1 ClusterRole /a": true,
	} {
		refused := ask(gate, object, control)
		if (refused == nil) != want {
			t.Errorf("%s: %v", object, refused)
		}
		if refused != nil && !strings.Contains(refused.Message, "spec.destinations") {
			t.Errorf("%s: %v", object, refused)
		}
	}
}

// A namespace in the manifest does not make a kind of the cluster one of the
// namespace, and an object that does not match its key is not touched.
func TestDisguised(t *testing.T) {
	gate := compile(t, "destinations: [{server: '*', namespace: '*'}]").Gate(to("|x"), true)
	for _, object := range []string{
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding x/a", "v1 Namespace x/a", "v1 Node x/a",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration x/a", "apiregistration.k8s.io/v1 APIService x/a",
	} {
		if refused := ask(gate, object, control); refused == nil {
			t.Errorf("%s is allowed", object)
		}
	}
	configMap := objectOf("v1 ConfigMap x/a")
	for _, key := range []tracking.Key{
		{Kind: "ConfigMap", Namespace: "y", Name: "a"}, {Kind: "Secret", Namespace: "x", Name: "a"}, {Group: "g", Kind: "ConfigMap", Namespace: "x", Name: "a"}, {},
	} {
		if gate.Allows(key, configMap, control) == nil {
			t.Errorf("the ConfigMap x/a passes as %s", key)
		}
	}
	if refused := gate.Allows(tracking.KeyOf(configMap), nil, control); refused != nil {
		t.Errorf("a key without its object: %v", refused)
	}
}

// TestControlNamespace is where the gate is stricter than Argo CD.
func TestControlNamespace(t *testing.T) {
	const (
		pattern = "destinations: [{server: '*', namespace: '*'}]"
		named   = "destinations: [{server: '*', namespace: argocd}]"
		listed  = named + "\nnamespaceResourceWhitelist: [{group: argoproj.io, kind: Application}, {group: argoproj.io, kind: AppProject}]"
		starred = named + "\nnamespaceResourceWhitelist: [{group: '*', kind: '*'}]"
		all     = pattern + "\nsourceRepos: ['*']\nclusterResourceWhitelist: [{group: '*', kind: '*'}]"

		configMaps = named + "\nnamespaceResourceWhitelist: [{group: '', kind: ConfigMap}]"
		binding    = "rbac.authorization.k8s.io/v1 RoleBinding argocd/a"
		account    = "v1 ServiceAccount argocd/a"
		deployment = "apps/v1 Deployment argocd/a"
		settings   = "v1 ConfigMap argocd/a"
		partOf     = "metadata.labels.app.kubernetes.io/part-of"

		secret      = "v1 Secret argocd/a"
		application = "argoproj.io/v1alpha1 Application argocd/a"
		appProject  = "argoproj.io/v1alpha1 AppProject argocd/a"
		set         = "argoproj.io/v1alpha1 ApplicationSet argocd/a"
		elsewhere   = "argoproj.io/v1alpha1 Application tenant/a"
		inSpec      = "spec.project"
		inTemplate  = "spec.template.spec.project"
	)
	for _, test := range []struct {
		name, spec, object, from string
		fields                   []string
		want                     string // part of the refused, empty if it is allowed
	}{
		{"a pattern does not reach it", pattern, secret, control, nil, "spec.destinations"},
		{"a name does, for Applications of the project only", named, secret, control, nil, "spec.namespaceResourceWhitelist"},
		{"a RoleBinding", named, binding, control, nil, "spec.namespaceResourceWhitelist"},
		{"a ServiceAccount", named, account, control, nil, "spec.namespaceResourceWhitelist"},
		{"a Deployment, which could run as the agent", named, deployment, control, nil, "spec.namespaceResourceWhitelist"},
		{"a ConfigMap, which could be a setting", starred, settings, control, nil, "spec.namespaceResourceWhitelist"},
		{"a ConfigMap, as an administrator", configMaps, settings, control, nil, ""},
		{"a part of the runtime, as an administrator", configMaps, settings, control, []string{partOf, "slipway"}, "part of the runtime"},
		{"a part of something else, as an administrator", configMaps, settings, control, []string{partOf, "shop"}, ""},
		{"a part of the runtime, without limits", all, settings, control, []string{partOf, "slipway"}, ""},
		{"not for Applications of other namespaces", named, secret, "tenant", nil, "control namespace"},
		{"an Application of the same project", named, application, control, []string{inSpec, "team"}, ""},
		{"of another project", named, application, control, []string{inSpec, "other"}, "spec.namespaceResourceWhitelist"},
		{"of no project, which is default", named, application, control, nil, "spec.namespaceResourceWhitelist"},
		{"of another project, as an administrator", listed, application, control, []string{inSpec, "other"}, ""},
		{"a pattern of kinds is not enough", starred, application, control, []string{inSpec, "other"}, "spec.namespaceResourceWhitelist"},
		{"a project", named, appProject, control, nil, "spec.namespaceResourceWhitelist"},
		{"a project, as an administrator", listed, appProject, control, nil, ""},
		{"a set of the same project", named, set, control, []string{inTemplate, "team"}, ""},
		{"a set of another project", named, set, control, []string{inTemplate, "other"}, "spec.namespaceResourceWhitelist"},
		{"a set whose project has parameters", named, set, control, []string{inTemplate, "{{.project}}"}, "spec.namespaceResourceWhitelist"},
		{"a set with a patch, which cannot change the project", named, set, control, []string{inTemplate, "team", "spec.templatePatch", "{spec: {project: other}}"}, ""},
		{"another namespace", pattern, elsewhere, "tenant", []string{inSpec, "other"}, ""},
		{"without limits", all, application, control, []string{inSpec, "other"}, ""},
		{"without limits, from another namespace", all, appProject, "tenant", nil, ""},
	} {
		gate := compile(t, test.spec).Gate(to("|x"), true)
		refused := ask(gate, test.object, test.from, test.fields...)
		if (refused == nil) != (test.want == "") || refused != nil && !strings.Contains(refused.Message, test.want) {
			t.Errorf("%s: %v, want %q", test.name, refused, test.want)
		}
	}
}

// The control namespace is in the local cluster, whatever address that has; a
// namespace of another cluster that has its name is none.
func TestControlNamespaceOfCluster(t *testing.T) {
	destination := to("|argocd")
	destination.Server = "https://10.0.0.1:6443"
	for _, isLocal := range []bool{true, false} {
		gate := compile(t, "destinations: [{server: '*', namespace: argocd}]").Gate(destination, isLocal)
		if refused := ask(gate, "v1 Secret argocd/a", control); (refused != nil) != isLocal {
			t.Errorf("local %v: %v", isLocal, refused)
		}
	}
}

// A generator of an ApplicationSet can have a template with another project.
func TestControlNamespaceGeneratorTemplate(t *testing.T) {
	gate := compile(t, "destinations: [{server: '*', namespace: argocd}]").Gate(to("|argocd"), true)
	object := objectOf("argoproj.io/v1alpha1 ApplicationSet argocd/a")
	object.Object["spec"] = map[string]any{
		"template":   map[string]any{"spec": map[string]any{"project": "team"}},
		"generators": []any{map[string]any{"list": map[string]any{"template": map[string]any{"spec": map[string]any{"project": "other"}}}}},
	}
	if gate.Allows(tracking.KeyOf(object), object, control) == nil {
		t.Error("a template of a generator that names another project is allowed")
	}
}

// A project with any limit is not without limits.
func TestLimits(t *testing.T) {
	base := map[string]string{
		"sourceRepos": "['*']", "destinations": "[{server: '*', namespace: '*'}]", "clusterResourceWhitelist": "[{group: '*', kind: '*'}]",
	}
	for field, value := range map[string]string{
		"":                           "",
		"sourceRepos":                "['https://a/*']",
		"sourceRepos ":               "['*', '!https://a']",
		"destinations":               "[{server: 'https://kubernetes.default.svc', namespace: '*'}]",
		"destinations ":              "[{server: '*', namespace: '*'}, {server: '*', namespace: '!x'}]",
		"clusterResourceWhitelist":   "[{group: '*', kind: '*', name: a}]",
		"clusterResourceBlacklist":   "[{group: a, kind: b}]",
		"namespaceResourceWhitelist": "[{group: '*', kind: 'A*'}]",
		"namespaceResourceBlacklist": "[{group: a, kind: b}]",
		"destinationServiceAccounts": "[{server: 'https://kubernetes.default.svc', namespace: '*', defaultServiceAccount: x}]",
	} {
		var spec strings.Builder
		for name, content := range base {
			if name != strings.TrimSpace(field) {
				spec.WriteString(name + ": " + content + "\n")
			}
		}
		if field != "" {
			spec.WriteString(strings.TrimSpace(field) + ": " + value + "\n")
		}
		refused := ask(compile(t, spec.String()).Gate(to("|x"), true), "argoproj.io/v1alpha1 AppProject argocd/a", control)
		if (refused == nil) != (field == "") {
			t.Errorf("%s %s: %v", field, value, refused)
		}
	}
}

// The live object is judged as well: a project must not overwrite the
// Application of another one with one of its own, nor take what another
// Application owns.
func TestControlNamespaceLive(t *testing.T) {
	const text = "argoproj.io/v1alpha1 Application argocd/victim"
	for name, test := range map[string]struct {
		project string // of the live object; empty if there is none
		owner   string // Application that owns the live object
		spec    string
		want    string
	}{
		"nothing there":                        {want: ""},
		"of the same project":                  {project: "team", want: ""},
		"of another project":                   {project: "bank", want: "in another project"},
		"of the same project, with an owner":   {project: "team", owner: "other", want: "another Application owns it"},
		"of another project, as administrator": {project: "bank", owner: "other", spec: "\nnamespaceResourceWhitelist: [{group: argoproj.io, kind: Application}]"},
	} {
		gate := compile(t, "destinations: [{server: '*', namespace: argocd}]"+test.spec).Gate(to("|argocd"), true)
		of := func(project string) *unstructured.Unstructured {
			object := objectOf(text)
			object.Object["spec"] = map[string]any{"project": project}
			return object
		}
		tracker := tracking.Tracker{ControlNamespace: control}
		set := plan.Prepare(plan.Source{
			App: tracking.App{Namespace: control, Name: "mine"}, Tracker: tracker, Namespace: control,
			Scope: func(schema.GroupKind) plan.Scope { return plan.NamespaceScope }, Objects: []*unstructured.Unstructured{of("team")},
		})
		live := map[tracking.Key]*unstructured.Unstructured{}
		if test.project != "" {
			object := of(test.project)
			if test.owner != "" {
				tracker.Stamp(object, tracking.App{Namespace: control, Name: test.owner})
			}
			live[tracking.KeyOf(object)] = object
		}
		made := must.Get(plan.Build(set, plan.Input{Live: live, Gate: gate}))(t)
		if made.Blocked != (test.want != "") || made.Blocked && !strings.Contains(made.Refusals[0].Message, test.want) {
			t.Errorf("%s: %v, want %q", name, made.Refusals, test.want)
		}
	}
}
