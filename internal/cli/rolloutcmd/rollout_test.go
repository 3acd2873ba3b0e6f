package rolloutcmd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { clitest.Main(m) }

const rolloutDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Rollout, listKind: RolloutList, plural: rollouts, singular: rollout}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const objects = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: api}
spec:
  replicas: 5
  selector: {matchLabels: {app: api}}
  strategy: {canary: {steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}]}}
status:
  observedGeneration: "1"
  phase: Paused
  message: CanaryPauseStep
  currentStepIndex: 1
  controllerPause: true
  pauseConditions: [{reason: CanaryPauseStep, startTime: "2026-01-01T00:00:00Z"}]
  replicas: 5
  updatedReplicas: 1
  readyReplicas: 5
  availableReplicas: 5
---
apiVersion: slipway.dev/v1alpha1
kind: Release
metadata: {name: web}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  revisions:
  - {name: stable, hash: aaa, replicaSet: u1, weight: 80, commit: 111aaaa111111111111111111111111111111111}
  - {name: canary, hash: bbb, replicaSet: u2, weight: 20}
status:
  phase: Progressing
  step: 2
  steps: 4
  message: canary 20 %, waiting for 500 requests
  decision: {outcome: Wait, reason: TooFewRequests, message: 203 of 500 requests}
  revisions:
  - {name: stable, hash: aaa, ready: 4, requests: 812, errors: 1, p50Micros: 900, p99Micros: 12345}
  - {name: canary, hash: bbb, ready: 1, requests: 203, errors: 8, p50Micros: 1100, p99Micros: 13000}
`

type world struct {
	*kubetest.Cluster
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	cluster.Define(t, rolloutDefinition)
	cluster.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_releases.yaml")
	w := &world{cluster, cluster.Namespace(t)}
	clitest.Clean(t)
	w.Apply(t, w.namespace, objects)
	return w
}

func (w *world) run(t *testing.T, line string) clitest.Result {
	t.Helper()
	return clitest.Run(t, "rollout "+line+" --kubeconfig "+w.Kubeconfig+" -n "+w.namespace)
}

// shown replaces the name of the namespace.
func (w *world) shown(text string) string { return strings.ReplaceAll(text, w.namespace, "NAMESPACE") }

// field waits until an object has a value.
func (w *world) field(t *testing.T, kind progressive.Kind, name, want string, path ...string) {
	t.Helper()
	kubetest.WaitFor(t, w.Dynamic.Resource(kind.Resource()).Namespace(w.namespace), kube.Named(name), clitest.AppTimeout, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("it is not there")
		}
		value, _, _ := unstructured.NestedFieldNoCopy(found[0].Object, path...)
		text, _ := json.Marshal(value)
		if !strings.Contains(string(text), want) {
			return errors.New(strings.Join(path, ".") + " is " + string(text))
		}
		return nil
	})
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ line, want string }{
		{"list", `
NAME  KIND     STRATEGY  STATUS       STEP  WEIGHT  READY  MESSAGE
api   Rollout  Canary    Paused       1/3   20      5/5    CanaryPauseStep
web   Release  Canary    Progressing  2/4   20      -      canary 20 %, waiting for 500 requests`},
		{"list -o name", "rollout/api\nrelease/web"},
		{"get api", `
Name:       api
Namespace:  NAMESPACE
Kind:       Rollout
Strategy:   Canary
Status:     Paused: CanaryPauseStep
Step:       1/3
Steps:      setWeight 20, [pause], setWeight 60
Weight:     20
Replicas:   5 desired, 5 current, 1 updated, 5 ready, 5 available`},
		{"get release/web", `
Name:       web
Namespace:  NAMESPACE
Kind:       Release
Strategy:   Canary
Status:     Progressing: canary 20 %, waiting for 500 requests
Step:       2/4
Weight:     20
Decision:   Wait (TooFewRequests): 203 of 500 requests

REVISION  HASH  COMMIT   WEIGHT  READY  REQUESTS  ERRORS     P50     P99
stable    aaa   111aaaa  80      4      812       1 (0.1 %)  900µs   12.3ms
canary    bbb   -        20      1      203       8 (3.9 %)  1.1ms   13ms`},
		{"status api --watch=false", "Paused - CanaryPauseStep"},
	} {
		t.Run(c.line, func(t *testing.T) {
			got := w.run(t, c.line)
			if got.Code != 0 {
				t.Fatalf("got %+v", got)
			}
			clitest.RequireText(t, w.shown(got.Stdout), c.want)
		})
	}
	var list struct{ Items []struct{ Kind string } }
	if err := json.Unmarshal([]byte(w.run(t, "list -o json").Stdout), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("as JSON: %v, %+v", err, list)
	}
}

// TestAct: every verb changes what its controller reads.
func TestAct(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		line, out  string
		kind       progressive.Kind
		name, want string
		path       []string
	}{
		{"pause api", "rollout/api paused", progressive.KindRollout, "api", "true", []string{"spec", "paused"}},
		{"promote api", "rollout/api promoted", progressive.KindRollout, "api", "false", []string{"spec", "paused"}},
		{"abort api", "rollout/api aborted", progressive.KindRollout, "api", "true", []string{"status", "abort"}},
		{"retry rollout/api", "rollout/api retried", progressive.KindRollout, "api", "false", []string{"status", "abort"}},
		{"promote web", "release/web requested: promote", progressive.KindRelease, "web", `"promote/`, requested},
		{"promote web --full", "release/web requested: promote-full", progressive.KindRelease, "web", `"promote-full/`, requested},
		{"abort web", "release/web requested: abort", progressive.KindRelease, "web", `"abort/`, requested},
		{"pause release/web", "release/web requested: pause", progressive.KindRelease, "web", `"pause/`, requested},
		{"resume web", "release/web requested: resume", progressive.KindRelease, "web", `"resume/`, requested},
	} {
		got := w.run(t, c.line)
		if got.Code != 0 || strings.TrimSpace(got.Stdout) != c.out {
			t.Errorf("%s: got %+v, wanted %s", c.line, got, c.out)
		}
		w.field(t, c.kind, c.name, c.want, c.path...)
	}
}

var requested = []string{"metadata", "annotations", v1alpha1.AnnotationReleaseRequest}

func TestErrors(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"get nothing", 1, "there is no Rollout or Release nothing in the namespace " + w.namespace + ": see slipway rollout list -A"},
		{"get rollout/web", 1, "there is no Rollout web"},
		{"get", 2, "takes the name of a Rollout or a Release"},
		{"get deployment/web", 2, `"deployment" is no kind`},
		{"get a b", 2, "takes one name"},
		{"undo web", 1, "revert the commit"},
		{"undo api", 1, "there is no earlier revision"},
		{"list -o xml", 2, "choose one of table, json, yaml, name"},
	} {
		if got := w.run(t, c.line); got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: got %+v, wanted %d and %q", c.line, got, c.code, c.want)
		}
	}
}

// TestStatus: it waits for the end, and a rollback is a failure.
func TestStatus(t *testing.T) {
	w := newWorld(t)
	out := &programs.Output{}
	ended := make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- cli.Execute(ctx, []string{"rollout", "status", "web", "--kubeconfig", w.Kubeconfig, "-n", w.namespace}, out, out)
	}()
	out.WaitFor(t, "Progressing - canary 20 %")
	releases := w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(w.namespace)
	for second := range 5 {
		kubetest.Patch(t, releases, "web", fmt.Sprintf(`{"status":{"message":"canary 20 %%, for another %ds"}}`, 61-second))
	}
	out.WaitFor(t, "for another ")
	kubetest.Patch(t, w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(w.namespace), "web",
		`{"status":{"phase":"Held","message":"B had 4.1 % errors against 0.1 %"}}`)
	if code := programs.Receive(t, ended, "the command"); code != 1 || !strings.Contains(out.String(), "Held - B had 4.1 % errors") {
		t.Errorf("got %d and %s", code, out.String())
	}
	if n := strings.Count(out.String(), "for another"); n != 1 {
		t.Errorf("a countdown has %d lines: %s", n, out.String())
	}
}

// TestWatch: a line for each change, until the object is deleted.
// TestWatchWaits: a Release that does not exist yet is waited for.
func TestWatchWaits(t *testing.T) {
	w := newWorld(t)
	if got := w.run(t, "watch later --timeout 1s"); got.Code != 1 || !strings.Contains(got.Stderr, "waiting for it") {
		t.Errorf("got %+v", got)
	}
	client := w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(w.namespace)
	web := must.Get(client.Get(t.Context(), "web", metav1.GetOptions{}))(t)
	must.Do(t, client.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	out := &programs.Output{}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Execute(t.Context(), []string{"rollout", "watch", "web", "--kubeconfig", w.Kubeconfig, "-n", w.namespace}, out, out)
	}()
	out.WaitFor(t, "waiting for it")
	web.SetResourceVersion("")
	web.SetUID("")
	must.Get(client.Create(t.Context(), web, metav1.CreateOptions{}))(t)
	out.WaitFor(t, "WEIGHT")
	must.Do(t, client.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	if code := programs.Receive(t, ended, "the command"); code != 0 {
		t.Errorf("got %d and %s", code, out.String())
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	out := &programs.Output{}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Execute(t.Context(), []string{"rollout", "watch", "web", "--kubeconfig", w.Kubeconfig, "-n", w.namespace}, out, out)
	}()
	client := w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(w.namespace)
	out.WaitFor(t, "canary: 203 requests, 3.9 % errors, p99 13ms")
	kubetest.Patch(t, client, "web", `{"status":{"phase":"Succeeded","message":"done","step":4}}`)
	out.WaitFor(t, "Succeeded    4/4")
	if err := client.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if code := programs.Receive(t, ended, "the command"); code != 0 || !strings.Contains(out.String(), "was deleted.") {
		t.Errorf("got %d and %s", code, out.String())
	}
}
