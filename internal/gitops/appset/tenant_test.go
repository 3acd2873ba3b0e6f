package appset_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func eventResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
}

// TestClusterSecretsAsDocumented: each Secret is a cluster, and the own one is
// there without. No credentials leave the Secrets.
func TestClusterSecretsAsDocumented(t *testing.T) {
	s := newScene(t)
	secret := func(name, label string) string {
		return `
apiVersion: v1
kind: Secret
metadata:
  name: cluster-` + name + `
  labels: {argocd.argoproj.io/secret-type: cluster, type: ` + label + `}
  annotations: {note: ` + name + `, kubectl.kubernetes.io/last-applied-configuration: hidden-token}
stringData: {name: ` + name + `, server: "https://` + name + `.example.com", config: '{"bearerToken": "hidden-token"}'}
`
	}
	s.cluster.Apply(t, s.control, secret("one", "staging"))
	s.cluster.Apply(t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  generators: [{clusters: {values: {all: '{{toJson .}}'}}}]
  template:
    metadata: {name: '{{.nameNormalized}}', annotations: {all: '{{.values.all}}'}}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {server: '{{.server}}', namespace: x}}
`)
	for _, made := range s.awaits(s.control, "in-cluster,one") {
		if strings.Contains(fmt.Sprint(made.Object), "hidden-token") {
			t.Errorf("%s has credentials: %v", made.GetName(), made.Object)
		}
		if made.GetName() == "one" && !strings.Contains(made.GetAnnotations()["all"], `"note":"one"`) {
			t.Errorf("the parameters are %s", made.GetAnnotations()["all"])
		}
	}
	s.cluster.Apply(t, s.control, secret("two", "production"))
	s.awaits(s.control, "in-cluster,one,two")
	s.patch(s.sets(s.control), "set", `{"spec": {"generators": [{"clusters": {"selector": {"matchLabels": {"type": "production"}}, "values": {"all": "x"}}}]}}`)
	s.awaits(s.control, "two")
}

// A set has the limits of its project, also in the control namespace.
func TestTenant(t *testing.T) {
	s := newScene(t)
	own := s.git.Repository(t, "own", map[string]string{"apps/web/x.yaml": ""})
	foreign := s.git.Repository(t, "foreign", map[string]string{"apps/secret/x.yaml": ""})
	s.cluster.Apply(t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec:
  sourceRepos: ['`+own.URL()+`']
  sourceNamespaces: [`+s.tenant+`]
  destinations: [{server: 'https://kubernetes.default.svc', namespace: x}]
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: others}
spec: {sourceRepos: ['*'], sourceNamespaces: [elsewhere], destinations: [{server: '*', namespace: '*'}]}
---
apiVersion: v1
kind: Secret
metadata: {name: remote, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: remote, server: "https://remote.example.com"}
`)
	s.gitSet(s.tenant, "team", own)
	s.awaits(s.tenant, "web")
	s.gitSet(s.tenant, "team", foreign)
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceRepos")
	s.gitSet(s.tenant, "others", own)
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceNamespaces")
	s.gitSet(s.tenant, "'{{.path.basename}}'", own)
	s.told(s.tenant, "ErrorOccurred", "True", "without parameters")
	s.awaits(s.tenant, "web")
	// In a matrix the address can be made of parameters; the limit is the same.
	s.patch(s.sets(s.tenant), "set", `{"spec": {"template": {"spec": {"project": "team"}}, "generators": [{"matrix": {"generators": [
		{"list": {"elements": [{"repo": "`+foreign.URL()+`"}]}},
		{"git": {"repoURL": "{{.repo}}", "revision": "main", "directories": [{"path": "apps/*"}]}}]}}]}}`)
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceRepos")
	// Clusters that the project does not reach are not seen.
	s.patch(s.sets(s.tenant), "set", `{"spec": {"generators": [{"clusters": {}}], "template": {"metadata": {"name": "{{.name}}"}, "spec": {"source": {"path": "x"}}}}}`)
	s.awaits(s.tenant, "in-cluster")
	s.gitSet(s.control, "team", foreign)
	s.told(s.control, "ErrorOccurred", "True", "spec.sourceRepos")
	s.gitSet(s.control, "gone", own)
	s.told(s.control, "ErrorOccurred", "True", "there is no project gone")
	s.gitSet(s.control, "'{{.path.basename}}'", foreign) // only an administrator can write it
	s.awaits(s.control, "secret")
	live := s.until(s.tenant, "in-cluster", func(*unstructured.Unstructured) error { return nil })
	if live.GetNamespace() != s.tenant {
		t.Errorf("it is in %s", live.GetNamespace())
	}
}

// TestTenantGlobalProject: a set has the limits of the global projects of its project.
func TestTenantGlobalProject(t *testing.T) {
	s := newScene(t)
	own := s.git.Repository(t, "own", map[string]string{"apps/web/x.yaml": ""})
	s.cluster.Apply(t, s.control, `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data: {globalProjects: "[{projectName: base}]"}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]}
`)
	const base = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: base}\nspec: {sourceRepos: ['%s']}\n"
	s.gitSet(s.control, "team", own)
	s.told(s.control, "ErrorOccurred", "True", "its global project base does not exist")
	s.cluster.Apply(t, s.control, fmt.Sprintf(base, "!"+own.URL()))
	s.gitSet(s.control, "default", own)
	s.told(s.control, "ErrorOccurred", "True", "project default with its global projects base")
	s.cluster.Apply(t, s.control, fmt.Sprintf(base, "!https://elsewhere.example.com/*"))
	s.gitSet(s.control, "team", own)
	s.awaits(s.control, "web")
}
