package migrate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

type configMapType = corev1.ConfigMap

// patch merges a JSON text into an Application of Argo CD.
func (w *world) patch(name, text string) {
	w.t.Helper()
	kubetest.Patch(w.t, argotest.Applications(w.cluster, w.argo), name, text)
}

const syncedStatus = `{"status":{"sync":{"status":"Synced","comparedTo":{"source":{"repoURL":"x"},"destination":{}}}}}`

// TestRefused: R29, R121: what cannot be moved is refused with what to do, before
// anything is written.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	repository := w.git.Repository(t, "shop", manifests("shop"))
	// The garbage collector deletes what an owner has that is not there.
	set := w.cluster.Apply(t, w.argo, "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: all}\nspec: {generators: [], template: {metadata: {name: x}, spec: {project: default, destination: {}}}}\n")[0]
	for _, tt := range []struct {
		code, message, replace, by, patch string
	}{
		{migrate.CodeUnsupported, "sourceHydrator is not supported", "  project: default", "  project: default\n  sourceHydrator: {syncSource: {path: x}}", syncedStatus},
		{migrate.CodeElsewhere, "it is for the cluster https://elsewhere.example.com: run a runtime", "server: https://kubernetes.default.svc", "server: https://elsewhere.example.com", syncedStatus},
		{migrate.CodeGenerated, "the ApplicationSet all generates it", "labels: {team: a}", "ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: all, uid: " + string(set.GetUID()) + "}]", syncedStatus},
		{migrate.CodeParent, "the Application root has it in Git", "labels: {team: a}", "labels: {app.kubernetes.io/instance: root}", syncedStatus},
		{migrate.CodeOutOfSync, "it is not compared in Argo CD", "team: a", "team: b", `{}`},
		{migrate.CodeBusy, "Argo CD is syncing it: wait", "team: a", "team: c", `{"operation":{"sync":{}},` + syncedStatus[1:]},
		{migrate.CodeProject, "there is no AppProject nobody: make it", "project: default", "project: nobody", syncedStatus},
	} {
		t.Run(tt.code, func(t *testing.T) {
			name := strings.ToLower(tt.code)
			manifest := strings.Replace(strings.Replace(w.argoApp("shop", repository), "name: shop", "name: "+name, 1), tt.replace, tt.by, 1)
			manifest = strings.Replace(manifest, "finalizers: [resources-finalizer.argocd.argoproj.io]", "", 1)
			w.cluster.Apply(t, w.argo, manifest)
			w.patch(name, tt.patch)
			was := essence(w.app(w.argo, name))
			_, err := migrate.Run(t.Context(), w.options(name, w.cluster.Cluster))
			if err == nil || !strings.Contains(err.Error(), tt.message) || strings.Contains(err.Error(), "; ") {
				t.Fatalf("%v", err)
			}
			// The project is checked when it is moved, so the list does not have it.
			listed := must.Get(migrate.List(t.Context(), w.cluster.Cluster, w.argo, w.control))(w.t)
			at := slices.IndexFunc(listed, func(c migrate.Candidate) bool { return c.App.Name == name })
			if found := listed[at].Findings; tt.code != migrate.CodeProject && (len(found) != 1 || found[0].Code != tt.code || found[0].Fix == "") {
				t.Errorf("found %v", found)
			}
			if essence(w.app(w.argo, name)) != was || w.app(w.control, name) != nil {
				t.Error("something was written")
			}
		})
	}
	w.cluster.Apply(t, w.control, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata: {globalProjects: '[{projectName: base}]'}\n")
	w.cluster.Apply(t, w.argo, strings.Replace(w.argoApp("shop", repository), "name: shop", "name: global", 1))
	w.patch("global", syncedStatus)
	if _, err := migrate.Run(t.Context(), w.options("global", w.cluster.Cluster)); err == nil || !strings.Contains(err.Error(), "the global project base, which the runtime does not have") {
		t.Errorf("moved without its global project: %v", err)
	}
	options := w.options("none", w.cluster.Cluster)
	options.To.Namespace = w.argo
	if _, err := migrate.Run(t.Context(), options); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("moved into the namespace of Argo CD: %v", err)
	}
	if _, err := migrate.Back(t.Context(), w.options("parentapplication", w.cluster.Cluster)); err == nil || !strings.Contains(err.Error(), "nothing to take back") {
		t.Errorf("%v", err)
	}
}

// TestNobodyCompares: without a runtime the move stops where everything can be taken
// back, and reports it.
func TestNobodyCompares(t *testing.T) {
	w := newWorld(t)
	repository := w.git.Repository(t, "shop", manifests("shop"))
	w.cluster.Apply(t, w.argo, w.argoApp("shop", repository))
	w.patch("shop", syncedStatus)
	was := essence(w.app(w.argo, "shop"))
	options := w.options("shop", w.cluster.Cluster)
	options.Wait = 100 * time.Millisecond
	_, err := migrate.Run(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "has not looked at it") || !strings.Contains(err.Error(), "--back") {
		t.Fatalf("%v", err)
	}
	if theirs := w.app(w.argo, "shop"); theirs == nil || len(theirs.Finalizers) > 0 || theirs.Spec.SyncPolicy.IsAutomated() {
		t.Errorf("%+v", theirs)
	}
	must.Get(migrate.Back(t.Context(), w.options("shop", w.cluster.Cluster)))(t)
	if got := essence(w.app(w.argo, "shop")); got != was {
		t.Errorf("%s came back as %s", was, got)
	}
	w.patch("shop", `{"metadata":{"finalizers":null}}`)
}

// TestList: Applications of other namespaces are listed with what is in the way.
func TestList(t *testing.T) {
	w := newWorld(t)
	repository := w.git.Repository(t, "shop", manifests("shop"))
	plain := strings.Replace(w.argoApp("shop", repository), "finalizers: [resources-finalizer.argocd.argoproj.io]", "", 1)
	w.cluster.Apply(t, w.argo, plain)
	w.patch("shop", syncedStatus)
	w.cluster.Apply(t, w.control, strings.Replace(strings.Replace(plain, "namespace: "+w.argo, "namespace: "+w.control, 1), "name: shop", "name: own", 1))
	found := must.Get(migrate.List(t.Context(), w.cluster.Cluster, "", w.control))(t)
	at := slices.IndexFunc(found, func(c migrate.Candidate) bool { return c.App == tracking.App{Namespace: w.argo, Name: "shop"} })
	if at < 0 || len(found[at].Findings) > 0 || slices.ContainsFunc(found, func(c migrate.Candidate) bool { return c.App.Namespace == w.control }) {
		t.Errorf("%+v", found)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := migrate.List(ctx, w.cluster.Cluster, "", w.control); err == nil {
		t.Error("a list without an answer is no error")
	}
}

// FuzzRecords: no annotation makes the readers panic, and what is read can be used.
func FuzzRecords(f *testing.F) {
	f.Add(`{"finalizers":["a"],"automated":{"prune":true}}`)
	f.Add(`{"namespace":"a","name":"b","spec":{},"objects":[{"k":"Service","n":"x","bare":true}]}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, text string) {
		if err := migrate.ReadsRecords(text); err == nil && text == "" {
			t.Error("an empty text is no record")
		}
	})
}
