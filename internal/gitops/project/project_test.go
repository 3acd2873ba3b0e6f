package project_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

const control = "argocd"

// compile reads an AppProject from the YAML of its spec.
func compile(t *testing.T, spec string) *project.Project {
	t.Helper()
	compiled, refused := compileAny(t, spec)
	if len(refused) > 0 {
		t.Fatalf("refused: %s", refusal.Summary(refused))
	}
	return compiled
}

func compileAny(t *testing.T, spec string) (*project.Project, []refusal.Refusal) {
	t.Helper()
	object := map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindAppProject,
		"metadata": map[string]any{"name": "team", "namespace": control},
	}
	var content map[string]any
	must.Do(t, yaml.Unmarshal([]byte(spec), &content))
	object["spec"] = content
	decoded, refused, err := v1alpha1.DecodeProject(object)
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v %v", err, refused)
	}
	return project.Compile(decoded)
}

func app(namespace, repository, destination string) *v1alpha1.Application {
	made := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace}}
	made.Spec.Source = &v1alpha1.ApplicationSource{RepoURL: repository}
	made.Spec.Destination = to(destination)
	return made
}

// to reads server|name/namespace, as in https://a|x.
func to(text string) v1alpha1.ApplicationDestination {
	cluster, namespace, _ := strings.Cut(text, "|")
	destination := v1alpha1.ApplicationDestination{Name: cluster, Namespace: namespace}
	if strings.Contains(cluster, "://") {
		destination.Server, destination.Name = cluster, ""
	}
	return destination
}

// TestSourcesAsDocumented has the example of Argo CD's page about projects.
func TestSourcesAsDocumented(t *testing.T) {
	all := "destinations: [{server: '*', namespace: '*'}]\n"
	for _, test := range []struct{ repos, yes, no string }{
		{"['!ssh://git@GITHUB.com:argoproj/test', '!https://gitlab.com/group/**', '*']",
			"https://github.com/argoproj/test https://gitlab.com/other/a git@github.com:argoproj/other",
			"git@github.com:argoproj/test ssh://git@github.com/argoproj/test.git https://gitlab.com/group/a https://gitlab.com/group/a/b.git"},
		{"[https://github.com/argoproj/argocd-example-apps.git]",
			"https://github.com/argoproj/argocd-example-apps https://GitHub.com/argoproj/Argocd-Example-Apps.git",
			"http://github.com/argoproj/argocd-example-apps https://github.com/argoproj/argocd-example-apps2 https://user@github.com/argoproj/argocd-example-apps"},
		{"['https://github.com/argoproj/*']", "https://github.com/argoproj/a", "https://github.com/argoproj/a/b https://github.com/other/a"},
		{"['git@github.com:argoproj/*']", "ssh://git@github.com/argoproj/a git@github.com:argoproj/a.git", "https://github.com/argoproj/a"},
		{"['!https://a/b']", "", "https://a/b https://a/c"},
		{"[]", "", "https://a/b"},
		{"['https://a/team/**']", "https://a/team/b/c",
			`https://a/team/../other/x https://a/team/%2e%2e/other/x https://a/team/%2E./x git@a:team/../x https://a/team\..\x https://a/team/%zz`},
		{"['git@a:team/**']", "git@a:team/x", "git@a:team/../other git@a:../team/x"},
	} {
		p := compile(t, all+"sourceRepos: "+test.repos)
		for _, repository := range strings.Fields(test.yes) {
			if refused := p.Check(app(control, repository, "|x"), control); len(refused) > 0 {
				t.Errorf("%s refuses %s: %v", test.repos, repository, refused)
			}
		}
		for _, repository := range strings.Fields(test.no) {
			refused := p.Check(app(control, repository, "|x"), control)
			if len(refused) != 1 || refused[0].Field != "spec.source.repoURL" || refused[0].Reason != refusal.NotAllowed {
				t.Errorf("%s allows %s: %v", test.repos, repository, refused)
			}
			if _, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: repository}); err == nil {
				t.Errorf("%s: Admit(%s) differs from Check", test.repos, repository)
			}
		}
	}
}

// TestDestinationsAsDocumented has the example of Argo CD's page about projects.
func TestDestinationsAsDocumented(t *testing.T) {
	documented := "[{namespace: '!kube-system', server: '*'}, {namespace: '*', server: '!https://team1-*'}, {namespace: '*', server: '*'}]"
	for _, test := range []struct{ destinations, yes, no string }{
		{documented, "https://a|x |x in-cluster|default", "https://a|kube-system https://team1-b|x |kube-system"},
		{"[{server: https://kubernetes.default.svc, namespace: 'guestbook-*'}]", "|guestbook-a in-cluster|guestbook-a https://kubernetes.default.svc|guestbook-", "|guestbook https://a|guestbook-a other|guestbook-a"},
		{"[{name: in-cluster, namespace: x}]", "|x https://kubernetes.default.svc|x in-cluster|x", "https://a|x |y"},
		{"[{name: prod-*, namespace: x}]", "prod-1|x", "|x dev|x"},
		{"[{server: '*', namespace: '!kube-system'}]", "", "|kube-system |x"},
		{"[{name: '!prod', namespace: '*'}, {name: '*', server: '*', namespace: '*'}]", "dev|x |x", "prod|x https://a|x"},
		{"[{server: https://a, namespace: '!x'}, {server: '*', namespace: '*'}]", "https://b|y", "https://b|x"},
		{"[{server: '*'}]", "https://a|", "https://a|x"},
		{"[]", "", "|x"},
	} {
		p := compile(t, "sourceRepos: ['*']\ndestinations: "+test.destinations)
		for _, destination := range strings.Fields(test.yes) {
			if refused := p.Check(app(control, "https://a/b", destination), control); len(refused) > 0 {
				t.Errorf("%s refuses %s: %v", test.destinations, destination, refused)
			}
		}
		for _, destination := range strings.Fields(test.no) {
			refused := p.Check(app(control, "https://a/b", destination), control)
			if len(refused) != 1 || refused[0].Field != "spec.destination" || !strings.Contains(refused[0].Message, "spec.destinations") {
				t.Errorf("%s allows %s: %v", test.destinations, destination, refused)
			}
		}
	}
}

// TestSourceNamespacesAsDocumented: Argo CD's page about Applications in any
// namespace.
func TestSourceNamespacesAsDocumented(t *testing.T) {
	rest := "\nsourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]"
	for _, test := range []struct{ namespaces, yes, no string }{
		{"[namespace-one]", "namespace-one argocd", "namespace-two namespace-one-b"},
		{"['team-one-*']", "team-one-a argocd", "team-two"},
		{`['/^team-(a|b)$/']`, "team-a team-b", "team-c team-ab"},
		{"[]", "argocd", "x"},
	} {
		p := compile(t, "sourceNamespaces: "+test.namespaces+rest)
		for _, namespace := range strings.Fields(test.yes) {
			if refused := p.Check(app(namespace, "https://a/b", "|x"), control); len(refused) > 0 {
				t.Errorf("%s refuses %s: %v", test.namespaces, namespace, refused)
			}
		}
		for _, namespace := range strings.Fields(test.no) {
			refused := p.Check(app(namespace, "https://a/b", "|x"), control)
			if len(refused) != 1 || !strings.Contains(refused[0].Message, "spec.sourceNamespaces") {
				t.Errorf("%s allows %s: %v", test.namespaces, namespace, refused)
			}
		}
	}
}

// TestServiceAccountsAsDocumented has the example of Argo CD's page about
// impersonation.
func TestServiceAccountsAsDocumented(t *testing.T) {
	p := compile(t, `
sourceRepos: ['*']
destinations: [{server: '*', namespace: '*'}]
destinationServiceAccounts:
- {server: https://kubernetes.default.svc, namespace: guestbook, defaultServiceAccount: guestbook-deployer}
- {server: https://kubernetes.default.svc, namespace: 'guestbook-*', defaultServiceAccount: 'tenant1-ns:guestbook-deployer'}
- {server: https://kubernetes.default.svc, namespace: '', defaultServiceAccount: default}
`)
	for destination, want := range map[string]string{
		"|guestbook":           "guestbook guestbook-deployer true",
		"in-cluster|guestbook": "guestbook guestbook-deployer true",
		"https://kubernetes.default.svc|guestbook-dev": "tenant1-ns guestbook-deployer true",
		"|":                   " default true",
		"|other":              "  false",
		"https://a|guestbook": "  false",
	} {
		namespace, name, ok := p.ServiceAccount(to(destination))
		if got := fmt.Sprint(namespace, " ", name, " ", ok); got != want {
			t.Errorf("%s: %q, want %q", destination, got, want)
		}
		refused := p.Check(app(control, "https://a/b", destination), control)
		if (len(refused) == 0) != ok {
			t.Errorf("%s: %v, and the account is found: %t", destination, refused, ok)
		}
	}
	if _, _, ok := project.Default().ServiceAccount(to("|x")); ok {
		t.Error("the default project impersonates")
	}
}

// A name that cannot be parsed gives the ServiceAccount invalid, and never another one.
func TestInvalidServiceAccount(t *testing.T) {
	for _, text := range []string{"a:b:c", "kube-system:", "a/b", "a b"} {
		p, refused := compileAny(t, "destinationServiceAccounts: [{server: '*', namespace: '*', defaultServiceAccount: '"+text+"'}]")
		namespace, name, ok := p.ServiceAccount(to("|x"))
		if len(refused) != 1 || !ok || namespace != "x" || name != "invalid" {
			t.Errorf("%q: %v, and it is %s/%s %t", text, refused, namespace, name, ok)
		}
	}
}

func TestDefault(t *testing.T) {
	p := project.Default()
	if refused := p.Check(app(control, "https://a/b", "|x"), control); len(refused) > 0 {
		t.Error(refused)
	}
	if refused := p.Check(app("tenant", "https://a/b", "|x"), control); len(refused) != 1 {
		t.Errorf("an Application of another namespace is in default: %v", refused)
	}
	gate := p.Gate(to("|x"), true)
	for _, object := range []string{"v1 ConfigMap x/a", "v1 Namespace /a", "rbac.authorization.k8s.io/v1 ClusterRole /a", "argoproj.io/v1alpha1 AppProject argocd/a"} {
		if refused := ask(gate, object, control); refused != nil {
			t.Errorf("%s: %v", object, refused)
		}
	}
	if p.Name() != "default" || len(p.Windows()) != 0 {
		t.Errorf("it is %q with %d windows", p.Name(), len(p.Windows()))
	}
}

// What cannot be read fails closed.
func TestRefused(t *testing.T) {
	rest := "\nclusterResourceWhitelist: [{group: '*', kind: '*'}]\n"
	open := rest + "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]\n"
	for field, spec := range map[string]string{
		"spec.sourceRepos[0]":                                       rest + "sourceRepos: ['https://a/[']\ndestinations: [{server: '*', namespace: '*'}]",
		"spec.sourceRepos[1]":                                       rest + "sourceRepos: ['*', '!*']\ndestinations: [{server: '*', namespace: '*'}]",
		"spec.destinations[0].namespace":                            rest + "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '!*'}]",
		"spec.destinations[0].server":                               rest + "sourceRepos: ['*']\ndestinations: [{server: '{', namespace: '*'}]",
		"spec.namespaceResourceBlacklist[0].kind":                   open + "namespaceResourceBlacklist: [{group: '*', kind: '['}]",
		"spec.namespaceResourceWhitelist[0].group":                  open + "namespaceResourceWhitelist: [{group: '!a', kind: '*'}]",
		"spec.clusterResourceBlacklist[0].name":                     open + "clusterResourceBlacklist: [{group: '*', kind: '*', name: '['}]\nnamespaceResourceWhitelist: []",
		"spec.destinationServiceAccounts[0].server":                 open + "destinationServiceAccounts: [{server: '!a', namespace: '*', defaultServiceAccount: x}]",
		"spec.destinationServiceAccounts[0].defaultServiceAccount":  open + "destinationServiceAccounts: [{server: 'https://a', namespace: '*', defaultServiceAccount: 'a:b:c'}]",
		"spec.destinationServiceAccounts[0].defaultServiceAccount ": open + "destinationServiceAccounts: [{server: 'https://a', namespace: '*', defaultServiceAccount: ':b'}]",
	} {
		p, refused := compileAny(t, spec)
		if len(refused) == 0 || refused[0].Field != strings.TrimSpace(field) {
			t.Errorf("%s: refused %v", field, refused)
		}
		if len(p.Check(app(control, "https://a/b", "|x"), control)) == 0 && ask(p.Gate(to("|x"), true), "v1 ConfigMap x/a", control) == nil {
			t.Errorf("%s: it allows an object of a namespace", field)
		}
	}
	p, refused := compileAny(t, "sourceNamespaces: ['/(?!x)/', '!a', '/"+strings.Repeat("a", 600)+"/']"+open)
	if len(refused) != 3 || p.AllowsNamespace("y") {
		t.Errorf("sourceNamespaces: %v", refused)
	}
}

func TestWindows(t *testing.T) {
	p := compile(t, "syncWindows: [{kind: deny, schedule: '0 0 * * *', duration: 1h, applications: ['*']}]")
	if windows := p.Windows(); len(windows) != 1 || windows[0].String() != "deny 0 0 * * * for 1h" {
		t.Errorf("windows %v", windows)
	}
	if _, refused := compileAny(t, "syncWindows: [{kind: deny, schedule: '99 0 * * *', duration: 1h, applications: ['*']}]"); len(refused) != 1 {
		t.Errorf("a schedule that cannot be is taken: %v", refused)
	}
}

func TestAllowsCluster(t *testing.T) {
	p := compile(t, "destinations: [{server: 'https://a', namespace: x}, {server: '!https://b', namespace: w}, {name: 'prod-*', namespace: z}]")
	for cluster, want := range map[string]bool{"https://a|": true, "https://b|": false, "https://c|": false, "https://c|prod-1": true, "|": false} {
		server, name, _ := strings.Cut(cluster, "|")
		if p.AllowsCluster(server, name) != want {
			t.Errorf("%s: %t", cluster, !want)
		}
	}
	// A rule with ! for names does not let a cluster through whose name is not known.
	p = compile(t, "destinations: [{server: '*', namespace: '*'}, {name: '!prod', namespace: '*'}]")
	for name, want := range map[string]bool{"": false, "prod": false, "test": true} {
		if p.AllowsCluster("https://a", name) != want {
			t.Errorf("the name %q: %t", name, !want)
		}
	}
}

// The room of a project on the disk is a size above 0.
func TestDiskAnnotation(t *testing.T) {
	for text, refused := range map[string]bool{"8Gi": false, "1": false, "0": true, "-1Gi": true, "much": true, "": true} {
		given := &v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{project.DiskAnnotation: text}}}
		if _, faults := project.Compile(given); len(faults) > 0 != refused {
			t.Errorf("%q: %v", text, faults)
		}
	}
}

// ask reads apiVersion kind namespace/name. The name of a label may have dots.
func ask(gate plan.Gate, text, namespaceOfApp string, fields ...string) *refusal.Refusal {
	object := objectOf(text)
	for i := 0; i+1 < len(fields); i += 2 {
		depth := -1
		if strings.HasPrefix(fields[i], "metadata.labels.") {
			depth = 3
		}
		_ = unstructured.SetNestedField(object.Object, fields[i+1], strings.SplitN(fields[i], ".", depth)...)
	}
	return gate.Allows(tracking.KeyOf(object), object, namespaceOfApp)
}

func objectOf(text string) *unstructured.Unstructured {
	parts := strings.Fields(text)
	namespace, name, _ := strings.Cut(parts[2], "/")
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(parts[0])
	object.SetKind(parts[1])
	if namespace != "" {
		object.SetNamespace(namespace)
	}
	object.SetName(name)
	return object
}

// Charts read the cluster only where an annotation allows it, and not past the
// ServiceAccounts of the project.
func TestAllowsLookup(t *testing.T) {
	for text, want := range map[string]bool{"": false, "true": true, "false": false, "yes": false} {
		for _, accounts := range [][]v1alpha1.ApplicationDestinationServiceAccount{nil, {{Server: "*", Namespace: "*", DefaultServiceAccount: "deployer"}}} {
			given := &v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{DestinationServiceAccounts: accounts}}
			if text != "" {
				given.Annotations = map[string]string{project.LookupAnnotation: text}
			}
			compiled, refused := project.Compile(given)
			if got := compiled.AllowsLookup(); got != (want && accounts == nil) || (len(refused) > 0) != (text == "yes") {
				t.Errorf("%q with %d accounts: %t, refused %v", text, len(accounts), got, refused)
			}
		}
	}
}

// TestSignatureKeys: sources of a project with keys carry the ids of these, and a key that
// cannot be read refuses the project and fits no signature.
func TestSignatureKeys(t *testing.T) {
	const everything = "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]\nclusterResourceWhitelist: [{group: '*', kind: '*'}]\n"
	compiled := compile(t, everything+"signatureKeys: [{keyID: 4aee18f83afdeb23}, {keyID: 5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB24}]\n")
	admitted := must.Get(compiled.Admit(v1alpha1.ApplicationSource{RepoURL: "https://a/b"}))(t)
	if got := strings.Join(admitted.SignatureKeys(), " "); got != "4AEE18F83AFDEB23 4AEE18F83AFDEB24" {
		t.Errorf("the keys are %s", got)
	}
	if !compile(t, everything).IsUnlimited() || compiled.IsUnlimited() {
		t.Error("keys are no limit")
	}
	broken, refused := compileAny(t, everything+"signatureKeys: [{keyID: 3AFDEB23}]\n")
	if len(refused) != 1 || refused[0].Field != "spec.signatureKeys[0].keyID" {
		t.Errorf("refused: %v", refused)
	}
	if admitted := must.Get(broken.Admit(v1alpha1.ApplicationSource{RepoURL: "https://a/b"}))(t); len(admitted.SignatureKeys()) != 1 {
		t.Error("with a broken key signatures are not checked")
	}
}
