package kube_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestApply(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	target := kube.Target{Namespace: namespace, Manager: "apply-test"}

	applied, err := cluster.Cluster.Apply(t.Context(), target, `
# A document without content is passed over.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {colour: blue, size: small}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: `+namespace+`}
rules: []
`)
	must.Do(t, err)
	if len(applied) != 2 || applied[0].GetNamespace() != namespace || applied[1].GetNamespace() != "" {
		t.Errorf("applied %v", applied)
	}
	t.Cleanup(func() { deleteClusterRole(t, cluster, namespace) })

	// What is no longer applied goes, because this manager owned it.
	if _, err := cluster.Cluster.Apply(t.Context(), target, `
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {colour: green}
`); err != nil {
		t.Fatal(err)
	}
	first := must.Get(cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "first", metav1.GetOptions{}))(t)
	if len(first.Data) != 1 || first.Data["colour"] != "green" {
		t.Errorf("data is %v, want the colour green only", first.Data)
	}
	if first.ManagedFields[0].Manager != "apply-test" {
		t.Errorf("managed by %q", first.ManagedFields[0].Manager)
	}
}

// A kind that did not exist when the mapper first looked is found, and waited for
// until it is served.
func TestApplyNewKind(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	group := namespace + ".example.com"
	const thing = `
apiVersion: GROUP/v1
kind: Thing
metadata: {name: one}
`
	inGroup := func(manifest string) string { return strings.ReplaceAll(manifest, "GROUP", group) }
	_, err := cluster.Cluster.Apply(t.Context(), kube.Target{Namespace: namespace, Manager: "test"}, inGroup(thing))
	if err == nil || !strings.Contains(err.Error(), "apply Thing one (object 1)") {
		t.Fatalf("got error %v, want one that names the object", err)
	}
	definitions := cluster.Dynamic.Resource(kube.DefinitionResource())
	t.Cleanup(func() {
		if err := definitions.Delete(cleanupContext(t), "things."+group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	applied := cluster.Apply(t, namespace, kubetest.Definition(group, "v1", "Thing")+inGroup(thing))
	if len(applied) != 2 || applied[1].GetKind() != "Thing" || applied[1].GetUID() == "" {
		t.Errorf("got %v", applied)
	}
}

func TestApplyErrors(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	tests := []struct{ name, manifest, want string }{
		{"not YAML", "a: b: c", "read manifest after object 0"},
		{"no kind", "apiVersion: v1\nmetadata: {name: x}", "object 1 of the manifest needs apiVersion, kind and metadata.name"},
		{"no name", "apiVersion: v1\nkind: ConfigMap", "object 1 of the manifest needs"},
		{"unknown kind", "apiVersion: v1\nkind: Nothing\nmetadata: {name: x}", "apply Nothing x (object 1)"},
		{"refused", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}", "apply ConfigMap " + namespace + "/UPPER (object 1)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := cluster.Cluster.Apply(t.Context(), kube.Target{Namespace: namespace, Manager: "test"}, test.manifest)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func deleteClusterRole(t *testing.T, cluster *kubetest.Cluster, name string) {
	err := cluster.Client.RbacV1().ClusterRoles().Delete(cleanupContext(t), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
