package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/gittest"
)

// TestGlobalProjects: the limits of a global project count for the projects that argocd-cm selects,
// and changes of the setting and of the global project count at once.
func TestGlobalProjects(t *testing.T) {
	w := newWorld(t)
	repository := gittest.Serve(t).Repository(t, "app", map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n",
	})
	const globals = "  globalProjects: |\n    - {projectName: base, labelSelector: {matchLabels: {tier: all}}}\n"
	const base = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: base}\nspec: {namespaceResourceBlacklist: [{group: \"\", kind: %s}]}\n"
	w.settings(t, globals)
	w.apply(t, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default, labels: {tier: all}}\n"+
		"spec: {sourceRepos: [\"*\"], destinations: [{server: \"*\", namespace: CONTROL}], namespaceResourceWhitelist: [{group: \"\", kind: ServiceAccount}]}\n")
	w.application(t, "app", repository.URL())
	w.start(t, "one").readyWhen(t, "")
	w.refused(t, "its global project base does not exist")
	w.apply(t, fmt.Sprintf(base, "ServiceAccount"))
	w.refused(t, "default with its global projects base forbids ServiceAccount")
	if _, err := w.Client.CoreV1().ServiceAccounts(w.control).Get(t.Context(), "robot", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the global project forbids was applied: %v", err)
	}
	w.settings(t, "  globalProjects: '[{projectName: base, labels: {}}]'\n")
	w.refused(t, "globalProjects of the ConfigMap argocd-cm cannot be read")
	w.settings(t, globals)
	w.refused(t, "forbids ServiceAccount")
	w.apply(t, fmt.Sprintf(base, "Secret"))
	w.syncedTo(t, "app", repository.Head(t))
	w.apply(t, fmt.Sprintf(base, "ServiceAccount"))
	w.refused(t, "forbids ServiceAccount")
	w.settings(t, "  url: https://argocd.example.com\n")
	w.syncedTo(t, "app", repository.Head(t))
	w.await(t, "app", func(status map[string]any) error {
		if text := fmt.Sprint(status["conditions"]); strings.Contains(text, "forbids") {
			return errors.New("it is still refused: " + text)
		}
		return nil
	})
}

// refused waits until the status of the Application app has a text.
func (w *world) refused(t *testing.T, want string) {
	t.Helper()
	w.await(t, "app", func(status map[string]any) error {
		if text := fmt.Sprint(status["conditions"], status["operationState"]); !strings.Contains(text, want) {
			return fmt.Errorf("%q is not in its status: %s", want, text)
		}
		return nil
	})
}
