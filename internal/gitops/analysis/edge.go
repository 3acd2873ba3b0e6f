package analysis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

const (
	// defaultWindow is how long requests are counted without a window.
	defaultWindow = 30 * time.Second
	minWindow     = time.Second
)

// The metrics of the edges.
const (
	edgeErrorRate = "errorRate"
	edgeLatency   = "latency"
	edgeRequests  = "requests"
)

// EdgeReport is the report of one edge with its table.
type EdgeReport struct {
	Edge string
	*trafficreport.Report
}

// EdgeReports reads the reports of the edges that respond. It is an error if none does.
type EdgeReports func(context.Context) ([]EdgeReport, error)

// edgeProvider measures the requests that the edges sent to a Service during a window of
// time.
type edgeProvider struct{ *providers }

// windowKey is the measurement that a window belongs to.
type windowKey struct {
	run    types.UID
	metric string
}

// windows has the counts at the beginning of measurements, by edge. They are in memory
// only: a new leader begins the window again.
type windows struct {
	mu    sync.Mutex
	begun map[windowKey]map[string]edgeCount
}

// edgeCount is a count of one edge, and when the edge began to count.
type edgeCount struct {
	started time.Time
	count   trafficreport.Count
}

func newWindows() *windows { return &windows{begun: map[windowKey]map[string]edgeCount{}} }

func (w *windows) set(key windowKey, counts map[string]edgeCount) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[key] = counts
}

func (w *windows) get(key windowKey) (map[string]edgeCount, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts, found := w.begun[key]
	return counts, found
}

// forget drops the windows of a metric, or of a whole run for an empty name.
func (w *windows) forget(run types.UID, metric string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.begun {
		if key.run == run && (metric == "" || key.metric == metric) {
			delete(w.begun, key)
		}
	}
}

func (p *edgeProvider) measure(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) v1alpha1.Measurement {
	return p.begin(ctx, run, metric, p.begun())
}

// begin counts at the beginning of a window.
func (p *edgeProvider) begin(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, measurement v1alpha1.Measurement) v1alpha1.Measurement {
	given, window, err := parseEdgeMetric(metric)
	if err != nil {
		return p.failed(measurement, err)
	}
	counts, err := p.counts(ctx, run.Namespace, given)
	if err != nil {
		return p.failed(measurement, err)
	}
	p.windows.set(windowKey{run.UID, metric.Name}, counts)
	measurement.Phase, measurement.ResumeAt = v1alpha1.AnalysisPhaseRunning, stamp(p.now().Add(window))
	return measurement
}

func (p *edgeProvider) resume(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement {
	if _, found := p.windows.get(windowKey{run.UID, metric.Name}); !found {
		return p.begin(ctx, run, metric, begun) // another process began it
	}
	return p.finish(ctx, run, metric, begun)
}

// terminate evaluates what was counted until now. Without enough requests nothing was
// measured, which is no failure.
func (p *edgeProvider) terminate(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement {
	if _, found := p.windows.get(windowKey{run.UID, metric.Name}); found {
		if ended := p.finish(ctx, run, metric, begun); ended.Phase == v1alpha1.AnalysisPhaseFailed {
			return ended
		}
	}
	begun.Phase, begun.FinishedAt, begun.ResumeAt = v1alpha1.AnalysisPhaseSuccessful, stamp(p.now()), nil
	return begun
}

// finish evaluates the requests of a window.
func (p *edgeProvider) finish(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement {
	key := windowKey{run.UID, metric.Name}
	before, _ := p.windows.get(key)
	given, _, err := parseEdgeMetric(metric)
	if err != nil {
		return p.failed(begun, err)
	}
	counts, err := p.counts(ctx, run.Namespace, given)
	if err != nil {
		return p.failed(begun, err)
	}
	p.windows.forget(run.UID, metric.Name)
	var sum trafficreport.Count
	for edge, now := range counts {
		earlier := before[edge]
		if !earlier.started.Equal(now.started) {
			earlier = edgeCount{} // it was started within the window
		}
		difference := now.count.Since(&earlier.count)
		sum.Add(&difference)
	}
	begun.ResumeAt = nil
	begun.Metadata = map[string]string{
		"requests": strconv.FormatUint(sum.Requests(), 10), "errors": strconv.FormatUint(sum.Statuses[5], 10),
	}
	value := edgeValue(given, &sum)
	if given.Metric != edgeRequests && sum.Requests() < given.MinRequests {
		begun.Value, begun.Phase, begun.FinishedAt = strconv.FormatFloat(value, 'f', -1, 64), v1alpha1.AnalysisPhaseInconclusive, stamp(p.now())
		begun.Message = fmt.Sprintf("%d requests in the window, minRequests is %d", sum.Requests(), given.MinRequests)
		return begun
	}
	return p.evaluated(ctx, run, begun, evaluate.Request{
		Form: evaluate.Number, Body: strconv.AppendFloat(nil, value, 'g', -1, 64),
		SuccessCondition: metric.SuccessCondition, FailureCondition: metric.FailureCondition,
	})
}

// edgeValue returns the value of a metric. Without requests a rate or a latency is not a
// number.
func edgeValue(given *v1alpha1.EdgeMetric, sum *trafficreport.Count) float64 {
	requests := sum.Requests()
	switch {
	case given.Metric == edgeRequests:
		return float64(requests)
	case requests == 0:
		return math.NaN()
	case given.Metric == edgeLatency:
		return trafficreport.Quantile(sum.Spread, given.Quantile).Seconds()
	}
	return float64(sum.Statuses[5]) / float64(requests)
}

// parseEdgeMetric decodes and checks the content of the plugin. Unknown fields are
// refused: a misspelled one would change the decision.
func parseEdgeMetric(metric *v1alpha1.Metric) (*v1alpha1.EdgeMetric, time.Duration, error) {
	given := &v1alpha1.EdgeMetric{}
	decoder := json.NewDecoder(bytes.NewReader(metric.Provider.Plugin[v1alpha1.EdgePlugin]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(given); err != nil {
		return nil, 0, fmt.Errorf("plugin %s: %w", v1alpha1.EdgePlugin, err)
	}
	switch given.Metric {
	case edgeErrorRate, edgeRequests:
	case edgeLatency:
		if given.Quantile == 0 {
			given.Quantile = 0.99
		}
		if !(given.Quantile > 0 && given.Quantile <= 1) {
			return nil, 0, fmt.Errorf("plugin %s: quantile must be above 0 and at most 1", v1alpha1.EdgePlugin)
		}
	default:
		return nil, 0, fmt.Errorf("plugin %s: metric %q is not known: use %s, %s or %s", v1alpha1.EdgePlugin, given.Metric, edgeErrorRate, edgeLatency, edgeRequests)
	}
	if given.Service == "" {
		return nil, 0, fmt.Errorf("plugin %s: service is missing", v1alpha1.EdgePlugin)
	}
	window := defaultWindow
	if given.Window != "" {
		parsed, err := given.Window.Duration()
		if err != nil {
			return nil, 0, fmt.Errorf("plugin %s: invalid window: %w", v1alpha1.EdgePlugin, err)
		}
		window = max(parsed, minWindow)
	}
	return given, window, nil
}

// counts returns the count of each edge.
func (p *edgeProvider) counts(ctx context.Context, namespace string, given *v1alpha1.EdgeMetric) (map[string]edgeCount, error) {
	if p.edges == nil {
		return nil, errors.New("the agent does not read reports of edges: configure its runtime, or use prometheus")
	}
	reports, err := p.edges(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the reports of the edges: %w", err)
	}
	counts := make(map[string]edgeCount, len(reports))
	served := false
	for _, report := range reports {
		count, found, err := serviceCount(report.Report, namespace, given.Service)
		if err != nil {
			return nil, fmt.Errorf("edge %s: %w", report.Edge, err)
		}
		served = served || found
		counts[report.Edge] = edgeCount{report.Started, count}
	}
	if !served {
		return nil, fmt.Errorf("no edge has a route to the Service %s/%s", namespace, given.Service)
	}
	return counts, nil
}

// serviceCount sums the requests of the routes to a Service. Edges count by route, so
// that a route to several Services has no count of each.
func serviceCount(report *trafficreport.Report, namespace, service string) (sum trafficreport.Count, found bool, err error) {
	if report.Table == nil {
		return sum, false, nil
	}
	routes := map[trafficreport.RouteID]bool{}
	for i := range report.Table.Routes {
		route := &report.Table.Routes[i]
		own, others := false, false
		for _, target := range route.Backends {
			if target.ID.Namespace == namespace && target.ID.Name == service {
				own = true
			} else if target.Weight > 0 {
				others = true
			}
		}
		if own && others {
			return sum, false, fmt.Errorf("the route %s/%s sends requests to other Services too, and requests are counted by route: use a route to the Service alone, or prometheus", route.ID.Namespace, route.ID.Name)
		}
		if own {
			routes[route.ID], found = true, true
		}
	}
	for i := range report.Counts {
		if counted := &report.Counts[i]; routes[counted.ID] {
			sum.Add(&counted.Count)
		}
	}
	return sum, found, nil
}
