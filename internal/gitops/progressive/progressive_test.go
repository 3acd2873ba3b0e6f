package progressive_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// rolloutDefinition is the kind of Argo Rollouts as far as clients see it: it has
// a subresource for the status.
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

// patches records the changes that a client sends.
type patches struct {
	mu    sync.Mutex
	lines []string
}

func (p *patches) record(request *http.Request, send kubetest.Send) (*http.Response, error) {
	if request.Method == http.MethodPatch {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(strings.NewReader(string(body)))
		_, path, _ := strings.Cut(request.URL.Path, "/web")
		p.mu.Lock()
		p.lines = append(p.lines, strings.TrimPrefix(path+" ", " ")+string(body))
		p.mu.Unlock()
	}
	return send(request)
}

func (p *patches) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.lines, "\n")
	p.lines = nil
	return text
}

type world struct {
	*kubetest.Cluster
	*patches
	reader    *progressive.Reader
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Shared(t), patches: &patches{}}
	w.Define(t, rolloutDefinition)
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/slipway.dev_releases.yaml")
	w.namespace = w.Namespace(t)
	gate := &kubetest.Gate{}
	gate.Handle(w.record)
	w.reader = &progressive.Reader{Cluster: w.Connect(t, gate.Option), Manager: "test"}
	return w
}

// rollout is a manifest with a spec and a status in flow style.
func rollout(spec, status string) string {
	return fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web}\nspec: %s\nstatus: %s\n", spec, status)
}

// TestRolloutPatches: a Rollout gets the patches of Argo Rollouts' plugin of
// kubectl, in its order, to the same resources.
func TestRolloutPatches(t *testing.T) {
	w := newWorld(t)
	const steps = "strategy: {canary: {steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}]}}"
	const blue = "strategy: {blueGreen: {activeService: a}}"
	for _, c := range []struct {
		name, spec, status string
		action             progressive.Action
		want               string
	}{
		{"pause", "{" + steps + "}", "{phase: Progressing}", progressive.Pause, `{"spec":{"paused":true}}`},
		{"abort", "{" + steps + "}", "{phase: Progressing}", progressive.Abort, `/status {"status":{"abort":true}}`},
		{"retry", "{" + steps + "}", "{abort: true}", progressive.Retry, `/status {"status":{"abort":false}}`},
		{"resume", "{paused: true, " + steps + "}", "{pauseConditions: [{reason: CanaryPauseStep, startTime: \"2026-01-01T00:00:00Z\"}]}", progressive.Resume,
			"/status {\"status\":{\"pauseConditions\":null}}\n{\"spec\":{\"paused\":false}}"},
		{"promote a pause", "{" + steps + "}", "{currentStepIndex: 1, pauseConditions: [{reason: CanaryPauseStep, startTime: \"2026-01-01T00:00:00Z\"}]}", progressive.Promote,
			`/status {"status":{"pauseConditions":null}}`},
		{"promote a pause by a person", "{paused: true, " + blue + "}", "{phase: Paused}", progressive.Promote, `{"spec":{"paused":false}}`},
		{"promote a running step", "{" + steps + "}", "{currentStepIndex: 1}", progressive.Promote, `/status {"status":{"currentStepIndex":2,"pauseConditions":null}}`},
		{"promote the last step", "{" + steps + "}", "{currentStepIndex: 3}", progressive.Promote, `/status {"status":{"currentStepIndex":3,"pauseConditions":null}}`},
		{"promote without a result", "{" + steps + "}",
			"{currentStepIndex: 1, controllerPause: true, pauseConditions: [{reason: InconclusiveAnalysisRun, startTime: \"2026-01-01T00:00:00Z\"}], canary: {currentStepAnalysisRunStatus: {name: a, status: Inconclusive}}}",
			progressive.Promote, `/status {"status":{"controllerPause":false,"currentStepIndex":2,"pauseConditions":null}}`},
		{"promote blue-green", "{" + blue + "}", "{pauseConditions: [{reason: BlueGreenPause, startTime: \"2026-01-01T00:00:00Z\"}]}", progressive.Promote, `/status {"status":{"pauseConditions":null}}`},
		{"promote fully", "{paused: true, " + steps + "}", "{currentPodHash: b, stableRS: a}", progressive.PromoteFull,
			"/status {\"status\":{\"promoteFull\":true}}\n{\"spec\":{\"paused\":false}}"},
		{"promote fully without a new revision", "{" + steps + "}", "{currentPodHash: a, stableRS: a}", progressive.PromoteFull, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			namespace := w.Namespace(t)
			w.Apply(t, namespace, rollout(c.spec, c.status))
			state := must.Get(w.reader.Find(t.Context(), namespace, "web"))(t)
			must.Do(t, w.reader.Act(t.Context(), state, c.action))
			if got := w.take(); got != c.want {
				t.Errorf("got\n%s\nwanted\n%s", got, c.want)
			}
		})
	}
}

// TestReleaseRequest: the request is in an annotation that its controller reads.
func TestReleaseRequest(t *testing.T) {
	w := newWorld(t)
	w.Apply(t, w.namespace, release)
	state := must.Get(w.reader.Find(t.Context(), w.namespace, "web"))(t)
	seen := map[string]bool{}
	for _, action := range append(progressive.Actions(), progressive.Promote) {
		must.Do(t, w.reader.Act(t.Context(), state, action))
		object := must.Get(w.reader.Get(t.Context(), state.ID))(t).Object
		value := object.GetAnnotations()[v1alpha1.AnnotationReleaseRequest]
		got, id, err := v1alpha1.ParseReleaseRequest(value)
		if err != nil || string(got) != string(action) || id == "" || seen[value] {
			t.Errorf("%s: the request is %q (%v), and each has to differ", action, value, err)
		}
		seen[value] = true
	}
}

const release = `apiVersion: slipway.dev/v1alpha1
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
  - {name: stable, hash: aaa, weight: 80, ready: 4, requests: 812, errors: 1, p50Micros: 900, p99Micros: 12345}
  - {name: canary, hash: old, weight: 20, ready: 1, requests: 203, errors: 8}
`

// TestStates: what is read of both kinds. Counts of another revision are left out.
func TestStates(t *testing.T) {
	w := newWorld(t)
	w.Apply(t, w.namespace, release)
	w.Apply(t, w.namespace, strings.Replace(rollout(
		"{replicas: 5, selector: {matchLabels: {app: web}}, strategy: {canary: {steps: [{setWeight: 20}, {pause: {duration: 5m}}, {setWeight: 60}, {analysis: {}}, {experiment: {}}]}}}",
		"{observedGeneration: \"1\", phase: Paused, message: CanaryPauseStep, currentStepIndex: 1, currentPodHash: bbb, stableRS: aaa, replicas: 5, readyReplicas: 4, canary: {weights: {canary: {weight: 20}, stable: {weight: 80}}}}"),
		"name: web", "name: api", 1))
	states := must.Get(w.reader.List(t.Context(), w.namespace))(t)
	if len(states) != 2 || states[0].Name != "api" || states[1].Name != "web" {
		t.Fatalf("got %+v", states)
	}
	api, web := states[0], states[1]
	if api.Phase != "Paused" || api.Step != 1 || api.Steps != 5 || *api.Weight != 20 || api.Replicas.Ready != 4 || api.Replicas.Desired != 5 {
		t.Errorf("of a Rollout: %+v", api)
	}
	if got := strings.Join(api.StepNames, ", "); got != "setWeight 20, pause 5m, setWeight 60, analysis, experiment" {
		t.Errorf("its steps: %s", got)
	}
	if web.Phase != "Progressing" || web.Step != 2 || *web.Weight != 20 || web.Decision.Outcome != "Wait" || len(web.Revisions) != 2 {
		t.Fatalf("of a Release: %+v", web)
	}
	if stable := web.Revisions[0]; stable.Traffic == nil || stable.Traffic.Requests != 812 || stable.Ready != 4 {
		t.Errorf("of its stable revision: %+v", stable)
	}
	if canary := web.Revisions[1]; canary.Traffic != nil {
		t.Errorf("counts of another revision are shown: %+v", canary.Traffic)
	}

	// A status that is about an older spec must not be shown as the current one.
	kubetest.Patch(t, w.Dynamic.Resource(progressive.KindRollout.Resource()).Namespace(w.namespace), "api", `{"spec":{"replicas":6}}`)
	if state := must.Get(w.reader.Find(t.Context(), w.namespace, "api"))(t); state.Phase != "Progressing" || !strings.Contains(state.Message, "to be observed") {
		t.Errorf("after a change of the spec: %+v", state)
	}
}

// TestFind: a name that both kinds have is ambiguous, one that neither has is not
// found.
func TestFind(t *testing.T) {
	w := newWorld(t)
	_, err := w.reader.Find(t.Context(), w.namespace, "web")
	if absent := (*progressive.NotFoundError)(nil); !errors.As(err, &absent) {
		t.Errorf("without objects: %v", err)
	}
	w.Apply(t, w.namespace, release)
	w.Apply(t, w.namespace, rollout("{strategy: {canary: {}}}", "{phase: Healthy}"))
	_, err = w.reader.Find(t.Context(), w.namespace, "web")
	if both := (*progressive.AmbiguousError)(nil); !errors.As(err, &both) {
		t.Errorf("of both kinds: %v", err)
	}
}

// replicaSet is a revision of the Rollout web.
func replicaSet(owner *unstructured.Unstructured, number int, image string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-%[1]d
  labels: {app: web, rollouts-pod-template-hash: h%[1]d}
  annotations: {rollout.argoproj.io/revision: "%[1]d"}
  ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web, uid: %[2]s, controller: true}]
spec:
  replicas: 0
  selector: {matchLabels: {app: web, rollouts-pod-template-hash: h%[1]d}}
  template:
    metadata: {labels: {app: web, rollouts-pod-template-hash: h%[1]d}}
    spec: {containers: [{name: web, image: %[3]s}]}
`, number, owner.GetUID(), image)
}

// TestUndo: the template of an earlier revision is written without the label of its
// ReplicaSet; the current one is not written again.
func TestUndo(t *testing.T) {
	w := newWorld(t)
	made := w.Apply(t, w.namespace, rollout(
		"{selector: {matchLabels: {app: web}}, strategy: {canary: {}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: \"v3\"}]}}}",
		"{phase: Healthy, currentPodHash: h3, stableRS: h2}"))
	for number := range 3 {
		w.Apply(t, w.namespace, replicaSet(made[0], number+1, fmt.Sprintf("v%d", number+1)))
	}
	state := must.Get(w.reader.Get(t.Context(), progressive.ID{Kind: progressive.KindRollout, Namespace: w.namespace, Name: "web"}))(t)
	var roles []string
	for _, revision := range state.Revisions {
		roles = append(roles, fmt.Sprint(revision.Number, revision.Name, revision.Images))
	}
	if got := strings.Join(roles, " "); got != "3canary[v3] 2stable[v2] 1[v1]" {
		t.Errorf("the revisions are %s", got)
	}
	if _, err := w.reader.Undo(t.Context(), state, 3); !errors.Is(err, progressive.ErrUnchanged) {
		t.Errorf("to the current revision: %v", err)
	}
	if _, err := w.reader.Undo(t.Context(), state, 9); err == nil {
		t.Error("there is no revision 9")
	}
	for _, c := range []struct {
		to, want int64
	}{{0, 2}, {1, 1}} {
		if number := must.Get(w.reader.Undo(t.Context(), state, c.to))(t); number != c.want {
			t.Errorf("undo to %d went to %d", c.to, number)
		}
		state = must.Get(w.reader.Find(t.Context(), w.namespace, "web"))(t)
		template, _, _ := unstructured.NestedMap(state.Object.Object, "spec", "template")
		if text := fmt.Sprint(template); !strings.Contains(text, fmt.Sprintf("image:v%d", c.want)) || strings.Contains(text, "pod-template-hash") {
			t.Errorf("the template is %s", text)
		}
	}
}

// TestFollow: each change is seen until the end of the release.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	w.Apply(t, w.namespace, release)
	client := w.Dynamic.Resource(progressive.KindRelease.Resource()).Namespace(w.namespace)
	var seen []string
	err := w.reader.Follow(t.Context(), progressive.ID{Kind: progressive.KindRelease, Namespace: w.namespace, Name: "web"}, func(state *progressive.State) (bool, error) {
		seen = append(seen, state.Phase)
		if len(seen) == 1 {
			kubetest.Patch(t, client, "web", `{"status":{"phase":"RolledBack"}}`)
		}
		done, succeeded := state.Done()
		if succeeded {
			return false, errors.New("a rollback is no success")
		}
		return done, nil
	})
	if err != nil || seen[len(seen)-1] != "RolledBack" {
		t.Errorf("saw %v, %v", seen, err)
	}
}

// FuzzParseReleaseRequest: an accepted value is an action, and is read again from
// its own text.
func FuzzParseReleaseRequest(f *testing.F) {
	f.Add(v1alpha1.FormatReleaseRequest(v1alpha1.ReleaseAbort, time.Unix(1, 0)))
	f.Add("promote")
	f.Add("/")
	f.Fuzz(func(t *testing.T, value string) {
		action, id, err := v1alpha1.ParseReleaseRequest(value)
		if err != nil {
			return
		}
		again, same, err := v1alpha1.ParseReleaseRequest(string(action) + "/" + id)
		if err != nil || again != action || same != id {
			t.Errorf("%q: %s %q, then %s %q, %v", value, action, id, again, same, err)
		}
	})
}
