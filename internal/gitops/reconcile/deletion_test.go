package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const finalizer = "resources-finalizer.argocd.argoproj.io"

// delete deletes an Application, which has a finalizer before if it is named.
func (w *world) delete(name, finalizer string) {
	w.t.Helper()
	if finalizer != "" {
		w.patch(name, fmt.Sprintf(`{"metadata": {"finalizers": [%q]}}`, finalizer))
	}
	client := argotest.Applications(w.cluster, w.control)
	must.Do(w.t, client.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

func (w *world) gone(name string) {
	w.t.Helper()
	client := argotest.Applications(w.cluster, w.control)
	kubetest.WaitFor(w.t, client, kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return errors.New("it is still there")
		}
		return nil
	})
}

// label changes something of a Deployment that no rule depends on.
func (w *world) label(name, key string) {
	w.t.Helper()
	must.Get(w.cluster.Client.AppsV1().Deployments(w.target).Patch(w.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata": {"labels": {"example.com/%s": "x"}}}`, key), metav1.PatchOptions{FieldManager: "somebody"}))(w.t)
}

// deployment is one without Pods.
func deployment(name string) string {
	return strings.ReplaceAll(`apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 0
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: main, image: "example.com/NAME:1"}]}
`, "NAME", name)
}

// With Argo CD's finalizer, the objects go with the Application; without it they
// stay.
func TestDeletion(t *testing.T) {
	for _, test := range []struct {
		name, finalizer string
		stays           bool
	}{
		{"cascade", finalizer, false},
		{"background", finalizer + "/background", false},
		{"leave", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": deployment("two")})
			w.start()
			w.application("web", repository, "web", automated)
			w.synced("web", repository.Head(t))
			w.delete("web", test.finalizer)
			w.gone("web")
			if w.exists("one") != test.stays {
				t.Errorf("the object is there: %v, want %v", w.exists("one"), test.stays)
			}
		})
	}
}

// Neither a project that is gone nor a Git server that is away keeps an
// Application from being deleted.
func TestDeletionNeedsNothing(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.project("team", "")
	w.start()
	w.applicationIn("team", "web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	must.Do(w.t, w.cluster.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(w.control).Delete(t.Context(), "team", metav1.DeleteOptions{}))
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "there is no AppProject team")
	w.git.SetDown(true)
	w.engine.Stop()
	w.folder = t.TempDir()
	w.delete("web", finalizer)
	w.start()
	w.gone("web")
	if w.exists("one") {
		t.Error("the object is still there")
	}
}

// Hooks of the deletion run before and after, and an object that asks for it is
// deleted when a user confirms.
func TestDeletionHooksAndConfirmation(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{
		"web/one.yaml":   configMap("one", "1", "argocd.argoproj.io/sync-options: Delete=confirm"),
		"web/hook.yaml":  configMap("before", "1", "argocd.argoproj.io/hook: PreDelete", "argocd.argoproj.io/hook-delete-policy: Never"),
		"web/after.yaml": configMap("after", "1", "argocd.argoproj.io/hook: PostDelete", "argocd.argoproj.io/hook-delete-policy: Never"),
	})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	if w.exists("before") {
		t.Fatal("a hook of the deletion ran in a sync")
	}
	w.delete("web", finalizer)
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if !strings.Contains(app.Status.Health.Message, "to be confirmed") {
			return fmt.Errorf("it is %s: %s", summaryOf(app), app.Status.Health.Message)
		}
		return nil
	})
	if !w.exists("before") || !w.exists("one") || w.exists("after") {
		t.Error("the deletion did not wait for somebody")
	}
	w.patch("web", fmt.Sprintf(`{"metadata": {"annotations": {"argocd.argoproj.io/deletion-approved": %q}}}`, app.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")))
	w.gone("web")
	w.value("one", "")
	w.value("after", "1")
}
