package rollout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// variableController has the path of Argo Rollouts' controller, and variableModule that of
// its module. With them the scenarios are recorded again, by make argo-rollouts.
const (
	variableController = "ARGO_ROLLOUTS"
	variableModule     = "ARGO_ROLLOUTS_MODULE"
)

// TestUpstream plays scenarios with our controller. The sequence of the status, and at
// each stop the whole status, the ReplicaSets, Services and Ingresses are those that Argo
// Rollouts' own controller has written for the same objects and actions.
func TestUpstream(t *testing.T) {
	program, module := os.Getenv(variableController), os.Getenv(variableModule)
	cluster := newCluster(t, program == "")
	if program != "" {
		cluster.DefineFiles(t, filepath.Join(module, "manifests", "crds", "*-crd.yaml"))
	}
	paths := must.Get(filepath.Glob("testdata/upstream/*.txtar"))(t)
	if len(paths) == 0 {
		t.Fatal("there are no scenarios")
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive := must.Get(txtar.ParseFile(path))(t)
			if program != "" {
				recorded := play(t, cluster, archive, "", func(namespace string) { startUpstream(t, cluster, program, namespace) })
				setSection(archive, "upstream", recorded)
				must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			}
			want := section(archive, "upstream")
			got := play(t, cluster, archive, want, func(namespace string) { startOurs(t, cluster, namespace) })
			if got != want {
				t.Errorf("%s differs from Argo Rollouts:\n%s", path, difference(want, got))
			}
		})
	}
}

// newCluster starts a cluster that has the roles of deploy/agent for an agent that may not
// write everything and, if they are wanted, our definitions.
func newCluster(t *testing.T, definitions bool) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	if definitions {
		cluster.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	}
	for _, name := range []string{"clusterrole", "clusterrolebinding", "rollouts"} {
		cluster.Apply(t, "", string(must.Get(os.ReadFile("../../../deploy/agent/rbac/"+name+".yaml"))(t)))
	}
	return cluster
}

// startOurs runs our controllers of Rollouts and AnalysisRuns for a namespace, with the
// rights of newCluster.
func startOurs(t *testing.T, cluster *kubetest.Cluster, namespace string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(programs.Logged(t, "the controller"), nil))
	renderer := must.Get(render.New(render.Options{Command: []string{must.Get(os.Executable())(t), "render-worker"}}))(t)
	t.Cleanup(func() { _ = renderer.Close() })
	account := kubetest.Account("slipway-system", "slipway-agent")
	rollouts := rollout.New(rollout.Options{Cluster: cluster.Connect(t, account), Namespaces: []string{namespace}, Log: log})
	runs := analysis.NewController(analysis.Options{Cluster: cluster.Connect(t, account), Namespaces: []string{namespace}, Evaluator: renderer, Log: log})
	for _, run := range []func(context.Context) error{rollouts.Run, runs.Run} {
		ctx, stop := context.WithCancel(context.Background())
		programs.Background(t, func() { _ = run(ctx) }, stop)
	}
}

// ports are those of the controllers that run at the same time.
var ports atomic.Int32

// startUpstream runs Argo Rollouts' controller for a namespace.
func startUpstream(t *testing.T, cluster *kubetest.Cluster, program, namespace string) {
	t.Helper()
	port := 9300 + 2*ports.Add(1)
	command := exec.Command(program, "--kubeconfig="+cluster.Kubeconfig, "--leader-elect=false", "--namespaced", "--namespace="+namespace,
		fmt.Sprintf("--metricsPort=%d", port), fmt.Sprintf("--healthzPort=%d", port+1), "--loglevel=warn", "--qps=200", "--burst=400")
	command.Env = programs.Environment(t)
	programs.Run(t, "the controller of Argo Rollouts", command)
}

// section returns a file of an archive; empty if it has none.
func section(archive *txtar.Archive, name string) string {
	for _, file := range archive.Files {
		if file.Name == name {
			return string(file.Data)
		}
	}
	return ""
}

// setSection sets a file of an archive.
func setSection(archive *txtar.Archive, name, text string) {
	archive.Files = slices.DeleteFunc(archive.Files, func(file txtar.File) bool { return file.Name == name })
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

// scene is a namespace in which a scenario is played.
type scene struct {
	*kubetest.Cluster
	namespace string
	rollouts  dynamic.ResourceInterface
	archive   *txtar.Archive
	asleep    atomic.Bool
	// metric is what the server of metrics responds.
	metric atomic.Value

	mu       sync.Mutex
	sequence []string
}

// play does the actions of a scenario in a new namespace, and returns the states at its
// stops and the sequence of the status. A stop is reached when its state is the wanted
// one, or, while it is recorded, when nothing has changed for some time.
func play(t *testing.T, cluster *kubetest.Cluster, archive *txtar.Archive, want string, start func(namespace string)) string {
	t.Helper()
	// A connection of its own: the limit of requests counts for each.
	own := *cluster
	own.Cluster = cluster.Connect(t)
	s := &scene{Cluster: &own, namespace: cluster.Namespace(t), archive: archive}
	s.rollouts = own.Dynamic.Resource(v1alpha1.RolloutResource()).Namespace(s.namespace)
	own.MakePodsReady(t, s.namespace, s.asleep.Load)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, s.metric.Load()) }))
	t.Cleanup(server.Close)
	if objects := section(archive, "objects.yaml"); objects != "" {
		cluster.Apply(t, s.namespace, strings.ReplaceAll(objects, "METRIC", server.URL))
	}
	start(s.namespace)
	s.record(t)
	states := strings.Split(want, "\n=== ")
	var text strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(section(archive, "actions")), "\n") {
		action, until, stops := strings.Cut(line, " -> ")
		s.act(t, action)
		state := ""
		if !stops {
			// The next action does not wait.
		} else if want == "" {
			state = s.awaitQuiet(t, until)
		} else if i+1 < len(states) {
			wanted, _, _ := strings.Cut(states[i+1], "\n")
			_, wanted, _ = strings.Cut(states[i+1], wanted+"\n")
			state = s.awaitState(t, line, strings.TrimSuffix(wanted, "\n"))
		}
		fmt.Fprintf(&text, "\n=== %s\n%s\n", line, state)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&text, "\n=== sequence\n%s\n", strings.Join(s.sequence, "\n"))
	return text.String()
}

// act does one action.
func (s *scene) act(t *testing.T, action string) {
	t.Helper()
	verb, rest, _ := strings.Cut(action, " ")
	switch verb {
	case "deploy":
		// A rollback is known by the time of creation of ReplicaSets, which has whole seconds.
		awaitSecond(t)
		s.Apply(t, s.namespace, strings.ReplaceAll(section(s.archive, "rollout.yaml"), "VERSION", rest))
	case "workload":
		awaitSecond(t)
		s.Apply(t, s.namespace, strings.ReplaceAll(section(s.archive, "workload.yaml"), "VERSION", rest))
	case "metric":
		s.metric.Store(rest)
	case "restart":
		awaitSecond(t)
		kubetest.Patch(t, s.rollouts, "demo", fmt.Sprintf(`{"spec":{"restartAt":%q}}`, time.Now().UTC().Format(time.RFC3339)))
	case "patch":
		kubetest.Patch(t, s.rollouts, "demo", rest)
	case "pods":
		s.asleep.Store(rest == "off")
	default:
		t.Fatalf("there is no action %q", verb)
	}
}

// awaitSecond waits until another second begins: times of creation have whole ones.
func awaitSecond(t *testing.T) {
	t.Helper()
	began := time.Now().Unix()
	programs.Until(t, "the next second", func() bool { return time.Now().Unix() > began })
}

// record writes down each status that differs from the one before in what an update is
// about. Numbers of Pods are left out: they depend on when Pods become ready.
func (s *scene) record(t *testing.T) {
	t.Helper()
	watch := must.Get(s.rollouts.Watch(t.Context(), metav1.ListOptions{}))(t)
	programs.Background(t, func() {
		for event := range watch.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			s.mu.Lock()
			if line := summary(object); line != "" && (len(s.sequence) == 0 || s.sequence[len(s.sequence)-1] != line) {
				s.sequence = append(s.sequence, line)
			}
			s.mu.Unlock()
		}
	}, watch.Stop)
}

// summary is the line of a status in the sequence; empty before the first status.
func summary(object *unstructured.Unstructured) string {
	rollout, _, err := v1alpha1.Decode(object.Object)
	if err != nil || rollout.Status.Phase == "" {
		return ""
	}
	status := rollout.Status
	// Whether a complete update is Progressing or Healthy is a matter of Pods, too.
	if status.Phase == v1alpha1.PhaseProgressing && status.StableRS != "" && status.StableRS == status.CurrentPodHash {
		return ""
	}
	step, pauses := "-", []string{}
	if status.CurrentStepIndex != nil {
		step = fmt.Sprint(*status.CurrentStepIndex)
	}
	for _, one := range status.PauseConditions {
		pauses = append(pauses, one.Reason)
	}
	weight := "-"
	if weights := status.Canary.Weights; weights != nil {
		weight = fmt.Sprint(weights.Canary.Weight)
	}
	return fmt.Sprintf("%s step=%s pause=%s abort=%t full=%t current=%s stable=%s active=%s preview=%s weight=%s", status.Phase, step, strings.Join(pauses, ","),
		status.Abort, status.PromoteFull, status.CurrentPodHash, status.StableRS, status.BlueGreen.ActiveSelector, status.BlueGreen.PreviewSelector, weight)
}

// awaitState waits for a state.
func (s *scene) awaitState(t *testing.T, line, want string) string {
	t.Helper()
	last := ""
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := programs.Await(ctx, func(ctx context.Context) error {
		state, err := s.state(ctx)
		if err != nil {
			return err
		}
		if last = state; state != want {
			return fmt.Errorf("after %s the state differs", line)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v:\n%s", err, difference(want, last))
	}
	return last
}

// awaitQuiet waits for a phase and step, and then until nothing changes for two seconds.
// Only recordings need it.
func (s *scene) awaitQuiet(t *testing.T, until string) string {
	t.Helper()
	phase, step, _ := strings.Cut(until, " ")
	last, since := "", time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := programs.Await(ctx, func(ctx context.Context) error {
		state, err := s.state(ctx)
		if err != nil {
			return err
		}
		if state != last {
			last, since = state, time.Now()
		}
		reached := strings.Contains(state, "phase: "+phase+"\n") && (step == "" || strings.Contains(state, "currentStepIndex: "+step+"\n"))
		if !reached || time.Since(since) < 2*time.Second {
			return fmt.Errorf("not yet %s: %s", until, state)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v, last:\n%s", err, last)
	}
	return last
}

// difference shows the lines that differ.
func difference(want, got string) string {
	var text bytes.Buffer
	wanted, found := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range wanted {
		if !slices.Contains(found, line) {
			fmt.Fprintf(&text, "- %s\n", line)
		}
	}
	for _, line := range found {
		if !slices.Contains(wanted, line) {
			fmt.Fprintf(&text, "+ %s\n", line)
		}
	}
	return text.String() + "\nwant:\n" + want + "\ngot:\n" + got
}

// state is everything that the controller has written, without times.
func (s *scene) state(ctx context.Context) (string, error) {
	object, err := s.rollouts.Get(ctx, "demo", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	generation := ""
	text := "revision: " + object.GetAnnotations()["rollout.argoproj.io/revision"] + "\n"
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	// Argo Rollouts writes the whole object, which has a generation more then.
	if observed, _ := status["observedGeneration"].(string); observed == fmt.Sprint(object.GetGeneration()) {
		status["observedGeneration"] = "current"
	}
	text += show(map[string]any{"status": timeless(status)})
	if at, found, _ := unstructured.NestedString(object.Object, "spec", "restartAt"); found {
		older, err := s.olderPods(ctx, at)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("pods older than restartAt: %d\n", older)
	}
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "replicasets"}, {Version: "v1", Resource: "services"}, {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		v1alpha1.AnalysisRunResource(),
	} {
		list, err := s.Dynamic.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if list.Items[i].GetKind() == "Deployment" {
				generation = fmt.Sprint(list.Items[i].GetGeneration())
			}
			text += show(map[string]any{resource.Resource + " " + list.Items[i].GetName(): written(&list.Items[i])})
		}
	}
	if generation != "" {
		text = generationless(text, generation)
	}
	return strings.TrimSuffix(text, "\n"), nil
}

// generationless replaces the current generation of a workload, and removes histories of
// revisions: both grow each time that the workload is scaled, and how often that is
// depends on when Pods become ready.
func generationless(text, generation string) string {
	var kept []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "rollout.argoproj.io/revision-history":
			continue
		case "workloadObservedGeneration", "rollout.argoproj.io/workload-generation":
			if value == strconv.Quote(generation) {
				line = strings.Replace(line, value, "current", 1)
			}
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

// olderPods counts Pods that were created before a time.
func (s *scene) olderPods(ctx context.Context, at string) (int, error) {
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0, err
	}
	list, err := s.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	count := 0
	for i := range list.Items {
		if list.Items[i].CreationTimestamp.Time.Before(when) {
			count++
		}
	}
	return count, nil
}

// written is what a controller of Rollouts writes of an object.
func written(object *unstructured.Unstructured) map[string]any {
	annotations := object.GetAnnotations()
	if _, ok := annotations["scale-down-deadline"]; ok {
		annotations["scale-down-deadline"] = "set"
	}
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	result := map[string]any{"annotations": annotations, "labels": object.GetLabels()}
	switch object.GetKind() {
	case "Deployment":
		return map[string]any{"replicas": object.Object["spec"].(map[string]any)["replicas"]}
	case "ReplicaSet":
		result["replicas"], _, _ = unstructured.NestedInt64(object.Object, "spec", "replicas")
		result["minReadySeconds"], _, _ = unstructured.NestedInt64(object.Object, "spec", "minReadySeconds")
		result["podMetadata"], _, _ = unstructured.NestedMap(object.Object, "spec", "template", "metadata")
		result["available"], _, _ = unstructured.NestedInt64(object.Object, "status", "availableReplicas")
	case "AnalysisRun":
		result["terminate"], _, _ = unstructured.NestedBool(object.Object, "spec", "terminate")
		result["phase"], _, _ = unstructured.NestedString(object.Object, "status", "phase")
		result["message"], _, _ = unstructured.NestedString(object.Object, "status", "message")
	case "Service":
		result["selector"], _, _ = unstructured.NestedStringMap(object.Object, "spec", "selector")
	default:
		result["spec"], _, _ = unstructured.NestedMap(object.Object, "spec")
	}
	return result
}

// timeless replaces times, and orders conditions.
func timeless(status map[string]any) map[string]any {
	for _, name := range []string{"abortedAt", "restartedAt"} {
		if _, ok := status[name]; ok {
			status[name] = "set"
		}
	}
	// A client that retries writes false, which Argo Rollouts leaves.
	if status["abort"] == false {
		delete(status, "abort")
	}
	conditions, _ := status["conditions"].([]any)
	for _, one := range conditions {
		condition := one.(map[string]any)
		delete(condition, "lastUpdateTime")
		delete(condition, "lastTransitionTime")
	}
	slices.SortFunc(conditions, func(one, other any) int {
		return strings.Compare(one.(map[string]any)["type"].(string), other.(map[string]any)["type"].(string))
	})
	pauses, _ := status["pauseConditions"].([]any)
	for _, one := range pauses {
		delete(one.(map[string]any), "startTime")
	}
	for _, strategy := range []string{"canary", "blueGreen"} {
		if content, ok := status[strategy].(map[string]any); ok && len(content) == 0 {
			delete(status, strategy)
		}
	}
	return status
}

// show is a value as YAML.
func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	result, err := yaml.JSONToYAML(text)
	if err != nil {
		return err.Error()
	}
	return string(result)
}
