package migrate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// argoSet makes a set of Argo CD, and the Application shop as its controller makes
// it. More is added to the spec.
func (w *world) argoSet(of *gittest.Repository, more string) {
	w.t.Helper()
	set := w.cluster.Apply(w.t, w.argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: all, labels: {team: a}}
spec:
  goTemplate: true
  generators: [{list: {elements: [{name: shop}]}}]
  template:
    metadata: {name: "{{ .name }}"}
    spec: {project: default, source: {repoURL: %q, path: "{{ .name }}"}, destination: {server: https://kubernetes.default.svc, namespace: %s}}
%s`, of.URL(), w.target, more))[0]
	w.cluster.Apply(w.t, w.argo, strings.Replace(w.argoApp("shop", of), "finalizers: [resources-finalizer.argocd.argoproj.io]",
		fmt.Sprintf("ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: all, uid: %s, controller: true}]", set.GetUID()), 1))
	w.patch("shop", syncedStatus)
}

// set reads a set; nil if it is not there.
func (w *world) set(namespace string) *unstructured.Unstructured {
	w.t.Helper()
	list := must.Get(w.cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(namespace).List(w.t.Context(), kube.Named("all")))(w.t)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func (w *world) setOptions() migrate.SetOptions {
	return migrate.SetOptions{Cluster: w.cluster.Cluster, Set: tracking.App{Namespace: w.argo, Name: "all"}, ControlNamespace: w.control, Wait: patience}
}

// TestSetInterrupted: a set whose Applications do not get further is returned as it
// was, with its Applications.
func TestSetInterrupted(t *testing.T) {
	w := newWorld(t)
	w.argoSet(w.git.Repository(t, "apps", manifests("shop")), "")
	before := w.set(w.argo)
	var planned []string
	options := w.setOptions()
	options.DryRun, options.Report = true, func(write migrate.Write) { planned = append(planned, write.Verb+" "+write.Object) }
	if _, err := migrate.RunSet(t.Context(), options); err != nil || len(planned) < 6 || w.set(w.control) != nil || w.set(w.argo).GetUID() != before.GetUID() {
		t.Fatalf("%v: %v", err, planned)
	}
	// No runtime compares.
	options = w.setOptions()
	options.Wait = 30 * time.Second
	stopped := func(app *v1alpha1.Application) bool {
		return app != nil && app.Annotations["slipway.dev/migration-held"] != ""
	}
	_, err := migrate.RunSet(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "has not looked at it") || w.set(w.argo) != nil || !stopped(w.app(w.argo, "shop")) {
		t.Fatalf("%v", err)
	}
	if pending := w.set(w.control).GetAnnotations()["slipway.dev/migration-pending"]; pending != "true" || len(w.app(w.argo, "shop").OwnerReferences) > 0 {
		t.Errorf("the runtime's set is pending: %q", pending)
	}
	returned, err := migrate.BackSet(t.Context(), w.setOptions())
	must.Do(t, err)
	after := w.set(w.argo)
	if len(returned) != 1 || w.set(w.control) != nil || w.app(w.control, "shop") != nil || stopped(w.app(w.argo, "shop")) {
		t.Errorf("%+v", returned)
	}
	if !reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) || !reflect.DeepEqual(before.GetLabels(), after.GetLabels()) || !reflect.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) {
		t.Errorf("%v became %v", before, after)
	}
	if _, err := migrate.BackSet(t.Context(), w.setOptions()); err == nil || !strings.Contains(err.Error(), "was not moved") {
		t.Errorf("%v", err)
	}
}

// TestSetRefused: nothing is written for a set that cannot be moved.
func TestSetRefused(t *testing.T) {
	for _, tt := range []struct{ more, operation, want string }{
		{"  syncPolicy: {applicationsSync: create-only}\n", "", "does not allow that existing Applications"},
		{"  strategy: {type: RollingSync, deletionOrder: Reverse, rollingSync: {steps: [{matchExpressions: []}]}}\n", "", "deletes the Applications"},
		// An Application that Argo CD is syncing stops all of them.
		{"", `{"operation":{"sync":{}}}`, "syncing"},
	} {
		w := newWorld(t)
		w.argoSet(w.git.Repository(t, "apps", manifests("shop")), tt.more)
		if tt.operation != "" {
			kubetest.Patch(t, argotest.Applications(w.cluster, w.argo), "shop", tt.operation)
		}
		if _, err := migrate.RunSet(t.Context(), w.setOptions()); err == nil || !strings.Contains(err.Error(), tt.want) || w.set(w.control) != nil || w.app(w.control, "shop") != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if app := w.app(w.argo, "shop"); len(app.OwnerReferences) != 1 || app.Annotations["slipway.dev/migration-held"] != "" {
			t.Errorf("%s: it was changed: %+v", tt.want, app.ObjectMeta)
		}
	}
	w := newWorld(t)
	w.cluster.Apply(t, w.control, "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: all}\nspec: {generators: [], template: {metadata: {name: x}, spec: {project: default, destination: {}}}}\n")
	if _, err := migrate.RunSet(t.Context(), w.setOptions()); err == nil || !strings.Contains(err.Error(), "another ApplicationSet") {
		t.Errorf("%v", err)
	}
	must.Do(t, w.cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(w.control).Delete(t.Context(), "all", metav1.DeleteOptions{}))
	if _, err := migrate.RunSet(t.Context(), w.setOptions()); err == nil || !strings.Contains(err.Error(), "there is no ApplicationSet") {
		t.Errorf("%v", err)
	}
}
