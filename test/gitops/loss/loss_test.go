// Package loss checks that nothing which is rendered is lost: every object is
// applied, or named in an error while the Application is not Synced, and then
// nothing is pruned.
//
// The property runs on the planner with a cluster in memory, for many generated
// objects, and on the renderer and the planner for many generated files, whose
// objects Helm's library and a YAML library find independently. The cases run on `slipway agent` as a process with a real Git server and
// a real API server: one for each way in which objects were lost before, and some
// generated inputs.
package loss

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }

// endToEnd is how many generated inputs of each sort the real agent gets.
const endToEnd = 8

// TestAgentLosesNothing runs one agent for all cases, each with a repository and
// a namespace of its own.
func TestAgentLosesNothing(t *testing.T) {
	quiet(t)
	s := &suite{cluster: kubetest.Shared(t), git: gittest.Serve(t)}
	text := must.Get(v1alpha1.CRDs())(t)
	// The status of Rollouts is no subresource, so that a manifest can carry it: no
	// controller of them runs here.
	s.cluster.Define(t, string(text)+"\n---\n"+kubetest.Definition("argoproj.io", "v1alpha1", "Rollout"))
	s.control = s.cluster.Namespace(t)
	agentprocess.Start(t, agentprocess.Options{
		Binary: binary.Path(t), Kubeconfig: s.cluster.Kubeconfig, Namespace: s.control, Arguments: []string{"--leaderElection.enabled=false"},
	})
	rendered := renderedCases(t)
	t.Run("cases", func(t *testing.T) {
		t.Run("rollout", func(t *testing.T) {
			t.Parallel()
			s.rolloutDoesNotBlock(t)
		})
		for _, test := range slices.Concat(cases, rendered) {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				s.check(t, test)
			})
		}
		for seed := range uint64(endToEnd) {
			documents := generate(seed)
			t.Run(fmt.Sprintf("generated/%d", seed), func(t *testing.T) {
				t.Parallel()
				s.check(t, lossCase{name: fmt.Sprintf("generated-%d", seed), files: map[string]string{"app/all.yaml": manifests(documents)}, want: documents})
			})
		}
	})
}

// suite is what all cases share.
type suite struct {
	cluster *kubetest.Cluster
	git     *gittest.Server
	control string
}

// lossCase is a commit to a repository of which everything was synced, and what
// has to become of its objects.
type lossCase struct {
	name    string
	files   map[string]string
	options string
	want    []document
}

// cases are the ways in which objects were lost, each as small as it can be.
var cases = []lossCase{
	{name: "null-maps", files: map[string]string{"app/all.yaml": malformed[1].text}, want: []document{{name: "NAME"}}},
	{name: "refused-alone", files: map[string]string{"app/all.yaml": malformed[8].text}, want: []document{{name: "NAME", fate: refused}}},
	{name: "null-in-chart", files: map[string]string{
		"app/Chart.yaml":  "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"app/values.yaml": "annotations:\n",
		"app/templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: chart\n  labels:\n    app: chart\n  annotations:\n" +
			"    {{- with .Values.annotations }}{{ toYaml . | nindent 4 }}{{- end }}\n",
	}, want: []document{{name: "chart"}}},
	// Two objects that a template does not separate by a line of its own.
	{name: "joined-in-chart", files: map[string]string{
		"app/Chart.yaml":         "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"app/templates/all.yaml": configMap("one", "data: {a: b}\n") + "---" + configMap("two", ""),
	}, want: []document{{name: "one"}, {name: "two"}}},
	{name: "joined-in-folder", files: map[string]string{"app/joined.yaml": configMap("one", "data: {a: b}\n") + configMap("two", "")},
		want: []document{{name: "joined.yaml", fate: refused}}},
	// A file that Git LFS keeps elsewhere, in the place of its content.
	{name: "lfs-pointer", files: map[string]string{"app/large.yaml": "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"},
		want: []document{{name: "large.yaml", fate: refused}}},
	{name: "unknown-field", files: map[string]string{"app/all.yaml": configMap("typo", "date: {a: b}\ndata: {a: b}\n")},
		want: []document{{name: "typo", fate: rejected}}},
	{name: "unvalidated", options: "Validate=false", files: map[string]string{"app/all.yaml": configMap("typo", "date: {a: b}\ndata: {a: b}\n")},
		want: []document{{name: "typo"}}},
	{name: "unvalidated-object", files: map[string]string{"app/all.yaml": "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: typo, annotations: {argocd.argoproj.io/sync-options: Validate=false}}\ndate: {a: b}\n"}, want: []document{{name: "typo"}}},
}

// configMap is a ConfigMap with more fields.
func configMap(name, more string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" + more
}

// check syncs a first revision, commits what the case has, and waits for what has
// to become of it.
func (s *suite) check(t *testing.T, test lossCase) {
	target := s.cluster.Namespace(t)
	repository := s.git.Repository(t, test.name, map[string]string{"app/left.yaml": configMap("left", "data: {a: b}\n")})
	s.cluster.Apply(t, s.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, path: app, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy:
    automated: {prune: true, selfHeal: true}
    retry: {limit: 1, backoff: {duration: 1s, maxDuration: 1s}}
    syncOptions: [%s]
`, test.name, repository.URL(), target, test.options))
	apps := agentprocess.Applications(s.cluster.Cluster, s.control)
	agentprocess.Await(t, apps, test.name, agentprocess.InOrder(repository.Head(t)))
	for path, text := range test.files {
		test.files[path] = strings.ReplaceAll(text, "NAME", "name")
	}
	repository.Delete(t, "app/left.yaml")
	head := repository.Commit(t, test.files, "change")
	agentprocess.Await(t, apps, test.name, reached(head, test.want))
	if _, err := s.cluster.Client.CoreV1().ConfigMaps(target).Get(t.Context(), "left", metav1.GetOptions{}); (err == nil) != (worst(test.want) != applied) {
		t.Errorf("the object that left Git: %v", err)
	}
	for _, one := range test.want {
		if name := strings.ToLower(one.name); one.fate == applied && worst(test.want) < blocking && !strings.HasSuffix(name, "-") && !s.exists(t, target, name) {
			t.Errorf("%s is not applied", name)
		}
	}
}

// exists reports whether a ConfigMap or Secret is there.
func (s *suite) exists(t *testing.T, namespace, name string) bool {
	t.Helper()
	_, noMap := s.cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	_, noSecret := s.cluster.Client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	return noMap == nil || noSecret == nil
}

// reached is nil for an Application that has come to what documents demand.
func reached(head string, want []document) func(*v1alpha1.Application) error {
	inOrder := agentprocess.InOrder(head)
	return func(app *v1alpha1.Application) error {
		demanded := map[fate]v1alpha1.SyncStatusCode{
			applied: v1alpha1.SyncSynced, rejected: v1alpha1.SyncOutOfSync, blocking: v1alpha1.SyncOutOfSync, refused: v1alpha1.SyncUnknown,
		}[worst(want)]
		state := app.Status.OperationState
		switch {
		case worst(want) == applied:
			return inOrder(app)
		case app.Status.Sync.Status != demanded || worst(want) != refused && app.Status.Sync.Revision != head:
			return fmt.Errorf("it is %s at %s, want %s at %s: %s", app.Status.Sync.Status, app.Status.Sync.Revision, demanded, head, agentprocess.Reported(app))
		case worst(want) != refused && (state == nil || state.Phase != v1alpha1.OperationFailed):
			return fmt.Errorf("no sync has failed: %s", agentprocess.Reported(app))
		}
		texts := []string{agentprocess.Reported(app)}
		for _, one := range want {
			// A sync that does not begin does not report what it would meet.
			told := one.fate == refused || one.fate > applied && worst(want) < refused && (one.fate == blocking || worst(want) < blocking)
			if told && !isNamed(texts, document{name: strings.ToLower(one.name)}) {
				return fmt.Errorf("no error names %q: %s", one.name, texts[0])
			}
		}
		return nil
	}
}
