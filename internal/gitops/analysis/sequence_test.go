package analysis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// responses are the parts of a response that were served by URL.
type responses struct {
	mu   sync.Mutex
	urls map[string]*response
}

type response struct {
	number int
	since  time.Time
}

// next returns the number of a response. Requests that follow at once have the same:
// Argo Rollouts' controller can see an old status, and measure again.
func (r *responses) next(url string) int {
	const pause = 800 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.urls[url]
	if one == nil {
		one = &response{since: time.Now()}
		r.urls[url] = one
	}
	if time.Since(one.since) > pause {
		one.number, one.since = one.number+1, time.Now()
	}
	return one.number
}

// serveMetrics serves the responses that the runs of the archive name.
func serveMetrics(t *testing.T) string {
	t.Helper()
	served := responses{urls: map[string]*response{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Query().Get("of"), "|")
		part := parts[min(served.next(r.URL.String()), len(parts)-1)]
		if status, err := strconv.Atoi(part); err == nil && status >= 400 {
			w.WriteHeader(status)
			return
		}
		_, _ = io.WriteString(w, part)
	})
	mux.HandleFunc("/{run}/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("/{run}/down/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/{run}/api/v1/query", servePrometheus)
	mux.HandleFunc("/{run}/api/v1/query_range", servePrometheus)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return must.Get(url.Parse(server.URL))(t).Host
}

// servePrometheus serves queries such as vector(1,2).
func servePrometheus(w http.ResponseWriter, r *http.Request) {
	kind, rest, _ := strings.Cut(r.FormValue("query"), "(")
	rest = strings.TrimSuffix(rest, ")")
	var result []any
	for value := range strings.SplitSeq(rest, ",") {
		if value == "" {
			continue
		}
		sample := []any{1.5, value}
		switch kind {
		case "vector":
			result = append(result, map[string]any{"metric": map[string]any{}, "value": sample})
		case "matrix":
			result = append(result, map[string]any{"metric": map[string]any{}, "values": []any{sample}})
		case "scalar":
			result = sample
		}
	}
	if kind == "error" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "error", "errorType": "bad_data", "error": rest})
		return
	}
	if result == nil {
		result = []any{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}})
}

// scenario is a run of the archive.
type scenario struct {
	name, spec string
	// terminateAfter is the count of measurements after which the run is terminated;
	// 0 for never.
	terminateAfter int32
}

// observe creates the run and returns its sequence of status until it is completed.
func (s scenario) observe(ctx context.Context, t *testing.T, cluster *kubetest.Cluster, namespace, server string) (string, error) {
	var spec map[string]any
	must.Do(t, yaml.Unmarshal([]byte(strings.ReplaceAll(s.spec, "SERVER", server+"/"+s.name)), &spec))
	runs := cluster.Dynamic.Resource(v1alpha1.AnalysisRunResource()).Namespace(namespace)
	// The watch is first, so that it misses nothing.
	events, err := runs.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + s.name})
	if err != nil {
		return "", err
	}
	defer events.Stop()
	_, err = runs.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindAnalysisRun, "metadata": map[string]any{"name": s.name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	var sequence recorder
	terminated := false
	for {
		var event watch.Event
		select {
		case event = <-events.ResultChan():
		case <-ctx.Done():
			return sequence.text(), fmt.Errorf("%s: it did not complete:\n%s", s.name, sequence.text())
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return "", fmt.Errorf("%s: %v", s.name, event)
		}
		var now v1alpha1.AnalysisRun
		must.Do(t, json.Unmarshal(must.Get(object.MarshalJSON())(t), &now))
		sequence.add(&now.Status)
		if now.Status.Phase.Completed() {
			return sequence.text(), nil
		}
		if !terminated && s.terminateAfter > 0 && len(now.Status.MetricResults) > 0 && now.Status.MetricResults[0].Count >= s.terminateAfter {
			terminated = true
			if err := terminate(ctx, runs, s.name); err != nil {
				return "", err
			}
		}
	}
}

func terminate(ctx context.Context, runs dynamic.ResourceInterface, name string) error {
	_, err := runs.Patch(ctx, name, "application/merge-patch+json", []byte(`{"spec":{"terminate":true}}`), metav1.PatchOptions{})
	return err
}

// recorder collects what statuses have in common that are written at other times: the
// states of the run, and those of each metric.
type recorder struct {
	run     []string
	metrics map[string][]string
	last    v1alpha1.AnalysisRunStatus
}

func (r *recorder) add(status *v1alpha1.AnalysisRunStatus) {
	if status.Phase == "" {
		return
	}
	if r.metrics == nil {
		r.metrics = map[string][]string{}
	}
	note := func(to *[]string, line string) {
		if len(*to) == 0 || (*to)[len(*to)-1] != line {
			*to = append(*to, line)
		}
	}
	note(&r.run, strings.TrimSuffix(fmt.Sprintf("%s: %s", status.Phase, status.Message), ": "))
	for i := range status.MetricResults {
		result := status.MetricResults[i]
		var measured []string
		for _, one := range result.Measurements {
			line := string(one.Phase)
			for _, more := range []string{one.Value, one.Message} {
				if more != "" {
					line += " " + strings.TrimSpace(more)
				}
			}
			measured = append(measured, line)
		}
		result.Measurements = nil
		counts := string(must.Get(json.Marshal(result))(nil))
		lines := r.metrics[result.Name]
		note(&lines, counts+" ["+strings.Join(measured, "; ")+"]")
		r.metrics[result.Name] = lines
	}
	r.last = *status
}

func (r *recorder) text() string {
	var text strings.Builder
	for _, line := range r.run {
		text.WriteString("run " + line + "\n")
	}
	names := make([]string, 0, len(r.metrics))
	for name := range r.metrics {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, line := range r.metrics[name] {
			text.WriteString("metric " + line + "\n")
		}
	}
	dry, _ := json.Marshal(r.last.DryRunSummary)
	all, _ := json.Marshal(r.last.RunSummary)
	fmt.Fprintf(&text, "summary %s dry %s completed %t\n", all, dry, r.last.CompletedAt != nil)
	return text.String()
}

// observeAll runs all scenarios at the same time, and returns their sequences by name.
func observeAll(t *testing.T, cluster *kubetest.Cluster, scenarios []scenario) map[string]string {
	t.Helper()
	namespace, server := cluster.Namespace(t), serveMetrics(t)
	cluster.Apply(t, namespace, "{apiVersion: v1, kind: Secret, metadata: {name: api}, stringData: {token: hunter2}}")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	sequences := map[string]string{}
	var running sync.WaitGroup
	for _, one := range scenarios {
		running.Go(func() {
			sequence, err := one.observe(ctx, t, cluster, namespace, server)
			if err != nil {
				t.Errorf("%s: %v", one.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			// The address of the server is another one each time.
			sequences[one.name] = strings.ReplaceAll(sequence, server, "SERVER")
		})
	}
	running.Wait()
	return sequences
}
