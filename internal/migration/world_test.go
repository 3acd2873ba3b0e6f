package migration_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/migration"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// world is a cluster with Argo CD's own definitions. No Argo CD runs: objects and
// statuses are as it leaves them.
type world struct {
	t       *testing.T
	cluster *kubetest.Cluster
	git     *gittest.Repository
	// argo and control are where the Applications of Argo CD and of the runtime
	// are, and target where the objects go.
	argo, control, target string
}

// newWorld prepares the namespaces, and a repository with these files.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "manifests/crds/*-crd.yaml"))
	return &world{
		t: t, cluster: cluster, git: gittest.Serve(t).Repository(t, "apps", files),
		argo: cluster.Namespace(t), control: cluster.Namespace(t), target: cluster.Namespace(t),
	}
}

// deployed is an object in the cluster as Argo CD has applied it, with its
// mark.
func (w *world) deployed(app, kind, name, rest string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.target, fmt.Sprintf("apiVersion: v1\nkind: %[1]s\nmetadata: {name: %[2]s, annotations: {argocd.argoproj.io/tracking-id: '%[3]s:/%[1]s:%[4]s/%[2]s'}}\n%[5]s\n",
		kind, name, app, w.target, rest))
}

// application makes an Application that Argo CD has found in sync, with objects
// such as "ConfigMap shop Healthy", or "ConfigMap old pruned" for one that is not in
// Git any more. More is added to its source.
func (w *world) application(name, more string, objects ...string) {
	w.t.Helper()
	resources := ""
	for _, object := range objects {
		part := strings.Fields(object)
		resources += fmt.Sprintf("\n  - {version: v1, kind: %s, name: %s, namespace: %s, status: Synced", part[0], part[1], w.target)
		switch {
		case len(part) > 2 && part[2] == "pruned":
			resources += ", requiresPruning: true"
		case len(part) > 2:
			resources += ", health: {status: " + part[2] + "}"
		}
		resources += "}"
	}
	w.cluster.Apply(w.t, w.argo, w.manifest(name, more, cmp.Or(resources, " []")))
}

// manifest is the text of an Application with its status.
func (w *world) manifest(name, more, resources string) string {
	w.t.Helper()
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, labels: {tier: web}}
spec:
  project: default
  source: {repoURL: %[2]q, path: %[1]s, targetRevision: main%[3]s}
  destination: {server: https://kubernetes.default.svc, namespace: %[4]s}
  syncPolicy: {automated: {prune: true}}
status:
  sync: {status: Synced, revision: %[5]s, comparedTo: {source: {repoURL: %[2]q}, destination: {}}}
  health: {status: Healthy}
  resources:%[6]s
`, name, w.git.URL(), more, w.target, w.git.Head(w.t), resources)
}

// assess makes the report.
func (w *world) assess() *migration.Report {
	w.t.Helper()
	program := must.Get(os.Executable())(w.t)
	renderer := must.Get(render.New(render.Options{Command: []string{program, "render-worker"}, Workers: 1}))(w.t)
	defer func() { _ = renderer.Close() }()
	return must.Get(migration.Assess(w.t.Context(), migration.Options{
		Cluster: w.cluster.Cluster, Namespace: w.argo, ControlNamespace: w.control, Renderer: renderer,
	}))(w.t)
}

// object returns an object of the report.
func object(t *testing.T, report *migration.Report, kind, name string) *migration.Object {
	t.Helper()
	at := slices.IndexFunc(report.Objects, func(o *migration.Object) bool { return o.Kind == kind && o.Name == name })
	if at < 0 {
		t.Fatalf("the report has no %s %s", kind, name)
	}
	return report.Objects[at]
}

// field returns a field of an object.
func field(t *testing.T, of *migration.Object, name string) migration.Field {
	t.Helper()
	at := slices.IndexFunc(of.Fields, func(f migration.Field) bool { return f.Name == name })
	if at < 0 {
		t.Fatalf("%s has no field %s: %v", of, name, of.Fields)
	}
	return of.Fields[at]
}

// resource returns an object of a proof, by a part of its name.
func resource(t *testing.T, of *migration.Object, name string) migration.Resource {
	t.Helper()
	if of.Proof == nil {
		t.Fatalf("%s has no proof: %+v", of, of)
	}
	at := slices.IndexFunc(of.Proof.Resources, func(r migration.Resource) bool { return strings.HasSuffix(r.Name, name) })
	if at < 0 {
		t.Fatalf("%s has no resource %s: %+v", of, name, of.Proof)
	}
	return of.Proof.Resources[at]
}
