package analysis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/programs"
)

// newRuns returns the AnalysisRuns of a new namespace.
func newRuns(t *testing.T) (*kubetest.Cluster, string, dynamic.ResourceInterface) {
	t.Helper()
	cluster := kubetest.Shared(t)
	cluster.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	namespace := cluster.Namespace(t)
	return cluster, namespace, cluster.Dynamic.Resource(v1alpha1.AnalysisRunResource()).Namespace(namespace)
}

// apply creates a run with a spec.
func apply(t *testing.T, cluster *kubetest.Cluster, namespace, name, spec string) {
	t.Helper()
	cluster.Apply(t, namespace, fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: AnalysisRun\nmetadata: {name: %s}\nspec: %s\n", name, spec))
}

// await waits for a status of a run.
func await(t *testing.T, runs dynamic.ResourceInterface, name string, holds func(*v1alpha1.AnalysisRunStatus) bool) *v1alpha1.AnalysisRunStatus {
	t.Helper()
	var run v1alpha1.AnalysisRun
	programs.Eventually(t, func(ctx context.Context) error {
		object, err := runs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		run = v1alpha1.AnalysisRun{}
		text, err := object.MarshalJSON()
		if err := errors.Join(err, json.Unmarshal(text, &run)); err != nil {
			return err
		}
		if !holds(&run.Status) {
			return fmt.Errorf("the status is %+v", run.Status)
		}
		return nil
	})
	return &run.Status
}

func completed(status *v1alpha1.AnalysisRunStatus) bool { return status.Phase.Completed() }

// TestRefusedProvider: a provider that is not supported ends a run at once, with its
// name.
func TestRefusedProvider(t *testing.T) {
	cluster, namespace, runs := newRuns(t)
	startController(t, cluster, analysis.Options{Namespaces: []string{namespace}})
	for name, provider := range map[string]string{
		"datadog": "{datadog: {query: x}}", "kayenta": "{kayenta: {address: x}}", "other": "{plugin: {example.com/x: {}}}",
	} {
		apply(t, cluster, namespace, name, "{metrics: [{name: a, provider: "+provider+"}]}")
	}
	for name, want := range map[string]string{"datadog": "datadog", "kayenta": "kayenta", "other": "plugin example.com/x"} {
		status := await(t, runs, name, completed)
		want = "Analysis spec invalid: metrics[0]: the metric provider " + want + " is not supported"
		if status.Phase != v1alpha1.AnalysisPhaseError || !strings.HasPrefix(status.Message, want) {
			t.Errorf("%s: %s %s", name, status.Phase, status.Message)
		}
	}
	events := must.Get(cluster.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=AnalysisRunError"}))(t)
	if len(events.Items) == 0 {
		t.Error("there is no Event")
	}
}

// TestOutbound: metrics cannot read addresses of the agent's machine, and the value of a
// Secret is in no status.
func TestOutbound(t *testing.T) {
	cluster, namespace, runs := newRuns(t)
	var requested atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested.Add(1)
		_, _ = fmt.Fprintf(w, "%q", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	cluster.Apply(t, namespace, "{apiVersion: v1, kind: Secret, metadata: {name: api}, stringData: {token: hunter2}}")
	spec := `{args: [{name: token, valueFrom: {secretKeyRef: {name: api, key: token}}}], metrics: [
  {name: a, consecutiveErrorLimit: 0, provider: {web: {url: "` + server.URL + `", headers: [{key: Authorization, value: "{{args.token}}"}]}}},
  {name: b, consecutiveErrorLimit: 0, provider: {prometheus: {address: "` + server.URL + `", query: "up{token='{{args.token}}'}"}}}]}`
	t.Run("refused", func(t *testing.T) {
		startController(t, cluster, analysis.Options{Namespaces: []string{namespace}, Outbound: outbound.New()})
		apply(t, cluster, namespace, "refused", spec)
		status := await(t, runs, "refused", completed)
		for _, result := range status.MetricResults {
			if !strings.Contains(result.Message, "outbound.allow") {
				t.Errorf("%s: %s", result.Name, result.Message)
			}
		}
		if status.Phase != v1alpha1.AnalysisPhaseError || requested.Load() != 0 {
			t.Errorf("the phase is %s after %d requests", status.Phase, requested.Load())
		}
	})
	t.Run("allowed", func(t *testing.T) {
		startController(t, cluster, analysis.Options{Namespaces: []string{namespace}, Outbound: outbound.New(outbound.Loopback()...)})
		apply(t, cluster, namespace, "allowed", spec)
		text := string(must.Get(json.Marshal(await(t, runs, "allowed", completed)))(t))
		if strings.Contains(text, "hunter2") || !strings.Contains(text, `"value":"\"*****\""`) || !strings.Contains(text, "up{token='*****'}") {
			t.Errorf("the status is %s", text)
		}
	})
}

// TestContinue: a controller that starts continues where the last one was, a Job is not
// created twice, and a run whose time is over is deleted.
func TestContinue(t *testing.T) {
	cluster, namespace, runs := newRuns(t)
	server := serveMetrics(t)
	apply(t, cluster, namespace, "long", `{ttlStrategy: {secondsAfterCompletion: 1}, metrics: [
  {name: a, interval: 2s, count: 3, provider: {web: {url: "http://`+server+`/continue/?of=1|2|3"}}},
  {name: b, provider: {job: {spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}}}}]}`)
	measured := func(count int32) func(*v1alpha1.AnalysisRunStatus) bool {
		return func(s *v1alpha1.AnalysisRunStatus) bool {
			return len(s.MetricResults) == 2 && s.MetricResults[0].Count >= count
		}
	}
	for count := range int32(2) {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			startController(t, cluster, analysis.Options{Namespaces: []string{namespace}})
			await(t, runs, "long", measured(count+1))
		})
	}
	jobs := cluster.Client.BatchV1().Jobs(namespace)
	if found := must.Get(jobs.List(t.Context(), metav1.ListOptions{}))(t).Items; len(found) != 1 {
		t.Errorf("there are %d Jobs", len(found))
	}
	startController(t, cluster, analysis.Options{Namespaces: []string{namespace}})
	status := await(t, runs, "long", measured(3))
	var values []string
	for _, one := range status.MetricResults[0].Measurements {
		values = append(values, one.Value)
	}
	if strings.Join(values, " ") != "1 2 3" {
		t.Errorf("the values are %v", values)
	}
	must.Do(t, terminate(t.Context(), runs, "long"))
	programs.Eventually(t, func(ctx context.Context) error {
		if _, err := runs.Get(ctx, "long", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the run is still there: %w", err)
		}
		return nil
	})
}

// edges are edges whose counts a test sets.
type edges struct {
	mu      sync.Mutex
	reports []analysis.EdgeReport
}

func (e *edges) read(context.Context) ([]analysis.EdgeReport, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reports, nil
}

// set replaces the counts of the only route, by edge.
func (e *edges) set(counts map[string]trafficreport.Count, backends ...trafficreport.Target) {
	id := trafficreport.RouteID{Namespace: "shop", Name: "web"}
	var reports []analysis.EdgeReport
	for name, count := range counts {
		reports = append(reports, analysis.EdgeReport{Edge: name, Report: &trafficreport.Report{
			Started: time.Unix(1000, 0), Counts: []trafficreport.RouteCount{{ID: id, Count: count}},
			Table: &trafficreport.Table{Routes: []trafficreport.Route{{ID: id, Backends: backends}}},
		}})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reports = reports
}

// TestEdge: a measurement has the requests of its window, of all edges, also of one that
// was started within it.
func TestEdge(t *testing.T) {
	cluster, namespace, runs := newRuns(t)
	count := func(good, failed uint64) trafficreport.Count {
		spread := make([]uint32, trafficreport.Buckets)
		spread[trafficreport.BucketOf(50*time.Millisecond)] = uint32(good + failed)
		return trafficreport.Count{Statuses: [6]uint64{2: good, 5: failed}, Spread: spread}
	}
	web := trafficreport.Target{ID: trafficreport.BackendID{Namespace: namespace, Name: "web", Port: 80}, Weight: 1}
	var reports edges
	reports.set(map[string]trafficreport.Count{"one": count(1000, 1000)}, web)
	startController(t, cluster, analysis.Options{Namespaces: []string{namespace}, Edges: reports.read})
	metric := func(name, fields, condition string) string {
		return fmt.Sprintf("{name: %s, successCondition: %q, provider: {plugin: {slipway.dev/edge: {service: web, window: 2s, %s}}}}", name, condition, fields)
	}
	apply(t, cluster, namespace, "run", "{metrics: ["+strings.Join([]string{
		metric("rate", "metric: errorRate", "result > 0.09 && result < 0.11"),
		metric("latency", "metric: latency, quantile: 0.5", "result > 0.03 && result < 0.07"),
		metric("requests", "metric: requests", "result == 200"),
	}, ", ")+"]}")
	await(t, runs, "run", func(s *v1alpha1.AnalysisRunStatus) bool { return len(s.MetricResults) == 3 })
	reports.set(map[string]trafficreport.Count{"one": count(1090, 1010), "two": count(90, 10)}, web)
	if status := await(t, runs, "run", completed); status.Phase != v1alpha1.AnalysisPhaseSuccessful {
		t.Errorf("the status is %+v", status)
	}
	apply(t, cluster, namespace, "few", "{metrics: ["+metric("rate", "metric: errorRate, minRequests: 10", "true")+"]}")
	if status := await(t, runs, "few", completed); status.Phase != v1alpha1.AnalysisPhaseInconclusive {
		t.Errorf("with few requests: %+v", status)
	}
	reports.set(map[string]trafficreport.Count{"one": count(1, 0)}, web, trafficreport.Target{ID: trafficreport.BackendID{Namespace: namespace, Name: "other"}, Weight: 1})
	for name, want := range map[string]string{"metric: errorRate": "sends requests to other Services too", "metric: x": `metric "x" is not known`, "metrc: x": "unknown field"} {
		run := "bad" + fmt.Sprint(len(name))
		apply(t, cluster, namespace, run, "{metrics: ["+strings.Replace(metric("a", name, "true"), "{name: a,", "{name: a, consecutiveErrorLimit: 0,", 1)+"]}")
		if status := await(t, runs, run, completed); !strings.Contains(status.Message, want) {
			t.Errorf("%s: %s", name, status.Message)
		}
	}
}
