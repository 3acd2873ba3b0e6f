package kube_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Widget, plural: PLURAL}
  versions:
  - name: STORAGE
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object}}
  - name: v1alpha1
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
`

// What is defined is served and listed, in each version that is to be; what the API
// server never serves is an error that names it.
func TestDefine(t *testing.T) {
	cluster := kubetest.Shared(t)
	group := cluster.Namespace(t) + ".example.test"
	define := func(ctx context.Context, plural, storage string) error {
		t.Helper()
		t.Cleanup(func() {
			err := cluster.Dynamic.Resource(kube.DefinitionResource()).Delete(cleanupContext(t), plural+"."+group, metav1.DeleteOptions{})
			if err != nil {
				t.Error(err)
			}
		})
		text := strings.NewReplacer("GROUP", group, "PLURAL", plural, "STORAGE", storage).Replace(widgets)
		_, err := cluster.Cluster.Define(ctx, kube.Target{Manager: "test"}, text)
		return err
	}
	must.Do(t, define(t.Context(), "widgets", "v1"))
	for _, version := range []string{"v1", "v1beta1"} {
		listed, err := cluster.Client.Discovery().ServerResourcesForGroupVersion(group + "/" + version)
		if err != nil || len(listed.APIResources) == 0 || listed.APIResources[0].Kind != "Widget" {
			t.Errorf("%s: %v, %v", version, listed, err)
		}
		resource := schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}
		if _, err := cluster.Dynamic.Resource(resource).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	// The kind is another definition's already.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := define(ctx, "gadgets", "v2"); err == nil || !strings.Contains(err.Error(), "gadgets."+group) {
		t.Errorf("a kind that is never served: %v", err)
	}
}
