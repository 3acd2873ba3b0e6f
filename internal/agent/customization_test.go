package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// settings writes argocd-cm. The values are indented by four spaces.
func (w *world) settings(t *testing.T, data string) {
	t.Helper()
	w.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n"+data)
}

// hasHealth waits until an Application has a health, with a text in that of an
// object.
func (w *world) hasHealth(t *testing.T, name, want, text string) {
	t.Helper()
	w.await(t, name, func(status map[string]any) error {
		got, _, _ := unstructured.NestedString(status, "health", "status")
		if resources := fmt.Sprint(status["resources"]); got != want || !strings.Contains(resources, text) {
			return fmt.Errorf("it is %s, want %s with %s: %s", got, want, text, resources)
		}
		return nil
	})
}

// TestHealthRulesOfSettings: health rules of argocd-cm count for all Applications,
// and change with it. A rule that never ends harms nothing but its own kind.
func TestHealthRulesOfSettings(t *testing.T) {
	w := newWorld(t)
	w.settings(t, `  resource.customizations.health.ConfigMap: |
    return {status = "Degraded", message = "it is " .. obj.data.state}
`)
	repository := gittest.Serve(t).Repository(t, "app", map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {state: upside down}\n",
	})
	w.application(t, "app", repository.URL())
	w.start(t, "one").readyWhen(t, "")
	w.hasHealth(t, "app", "Degraded", "it is upside down")
	w.settings(t, `  resource.customizations: |
    ConfigMap:
      health.lua: |
        return {status = "Suspended", message = "it rests"}
`)
	w.hasHealth(t, "app", "Suspended", "it rests")
	w.settings(t, `  resource.customizations.health.ConfigMap: |
    local text = "x"
    while true do text = text .. text end
`)
	w.hasHealth(t, "app", "Unknown", "exceeds its limits")
	other := gittest.Serve(t).Repository(t, "other", content("other"))
	w.application(t, "other", other.URL())
	w.syncedTo(t, "other", other.Head(t))
	w.settings(t, "  url: https://argocd.example.com\n")
	w.hasHealth(t, "app", "Healthy", "")
}

// TestDifferencesOfSettings: differences that argocd-cm ignores do not count, and
// kinds that it excludes are neither applied nor pruned.
func TestDifferencesOfSettings(t *testing.T) {
	w := newWorld(t)
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n"
	repository := gittest.Serve(t).Repository(t, "app", map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {state: good}\n", "robot.yaml": account,
	})
	w.settings(t, `  resource.exclusions: |
    - apiGroups: [""]
      kinds: [ServiceAccount]
  resource.customizations.ignoreDifferences.ConfigMap: |
    jsonPointers: [/data/state]
`)
	w.application(t, "app", repository.URL())
	w.start(t, "one").readyWhen(t, "")
	w.syncedTo(t, "app", repository.Head(t))
	w.await(t, "app", func(status map[string]any) error {
		if got := fmt.Sprint(status["conditions"]); !strings.Contains(got, "ExcludedResourceWarning") || !strings.Contains(got, "robot") {
			return errors.New("no warning of the excluded kind: " + got)
		}
		return nil
	})
	accounts := w.Client.CoreV1().ServiceAccounts(w.control)
	if _, err := accounts.Get(t.Context(), "robot", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the excluded object was applied: %v", err)
	}
	// selfHeal leaves what does not count.
	configMaps := w.Client.CoreV1().ConfigMaps(w.control)
	must.Get(configMaps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data": {"state": "changed"}}`), metav1.PatchOptions{}))(t)
	w.refresh(t, "app")
	if got := must.Get(configMaps.Get(t.Context(), "a", metav1.GetOptions{}))(t); got.Data["state"] != "changed" {
		t.Errorf("the ignored difference was repaired: %v", got.Data)
	}
	w.settings(t, "  url: https://argocd.example.com\n")
	kubetest.WaitFor(t, accounts, kube.Named("robot"), patience, func(found []*corev1.ServiceAccount) error {
		if len(found) == 0 {
			return errors.New("it is not applied")
		}
		return nil
	})
	kubetest.WaitFor(t, configMaps, kube.Named("a"), patience, func(found []*corev1.ConfigMap) error {
		if len(found) == 0 || found[0].Data["state"] != "good" {
			return fmt.Errorf("the difference still does not count: %v", found)
		}
		return nil
	})
	// An object of a kind that is excluded now stays when it leaves Git.
	w.settings(t, "  resource.exclusions: |\n    - kinds: [ServiceAccount]\n")
	w.await(t, "app", func(status map[string]any) error {
		if got := fmt.Sprint(status["conditions"]); !strings.Contains(got, "robot") {
			return errors.New("the kind is not excluded again: " + got)
		}
		return nil
	})
	head := repository.Commit(t, map[string]string{"robot.yaml": gittest.Gone}, "no robot")
	w.refresh(t, "app")
	w.syncedTo(t, "app", head)
	must.Get(accounts.Get(t.Context(), "robot", metav1.GetOptions{}))(t)
}

// refresh waits until an Application was compared again with Git.
func (w *world) refresh(t *testing.T, name string) {
	t.Helper()
	const annotation = "argocd.argoproj.io/refresh"
	client := w.Dynamic.Resource(applications).Namespace(w.control)
	patch := []byte(`{"metadata": {"annotations": {"` + annotation + `": "normal"}}}`)
	must.Get(client.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	kubetest.WaitFor(t, client, kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 || found[0].GetAnnotations()[annotation] != "" {
			return errors.New("it is not refreshed")
		}
		return nil
	})
}

// TestKnownFieldsOfSettings: a field whose type argocd-cm names is the same in
// another notation, so that selfHeal leaves what a controller wrote. Without the
// setting it is a difference.
func TestKnownFieldsOfSettings(t *testing.T) {
	w := newWorld(t)
	w.Define(t, kubetest.Definition("example.com", "v1", "Machine"))
	repository := gittest.Serve(t).Repository(t, "app", map[string]string{
		"a.yaml": "apiVersion: example.com/v1\nkind: Machine\nmetadata: {name: a}\nspec: {size: 1000m}\n",
	})
	w.settings(t, "  resource.customizations.knownTypeFields.example.com_Machine: |\n    - {field: spec.size, type: core/Quantity}\n")
	w.application(t, "app", repository.URL())
	w.start(t, "one").readyWhen(t, "")
	w.syncedTo(t, "app", repository.Head(t))
	machines := w.Dynamic.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "machines"}).Namespace(w.control)
	must.Get(machines.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec": {"size": "1"}}`), metav1.PatchOptions{}))(t)
	w.refresh(t, "app")
	w.syncedTo(t, "app", repository.Head(t))
	if size := sizeOf(must.Get(machines.Get(t.Context(), "a", metav1.GetOptions{}))(t)); size != "1" {
		t.Errorf("the size is %s", size)
	}
	w.settings(t, "  url: https://argocd.example.com\n")
	kubetest.WaitFor(t, machines, kube.Named("a"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 || sizeOf(found[0]) != "1000m" {
			return fmt.Errorf("the difference still does not count: %v", found)
		}
		return nil
	})
}

func sizeOf(machine *unstructured.Unstructured) string {
	size, _, _ := unstructured.NestedString(machine.Object, "spec", "size")
	return size
}
