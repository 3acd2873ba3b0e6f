package reconcile

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

// Metrics are the metrics of the engine.
type Metrics struct {
	controller atomic.Pointer[Controller]
	sources    atomic.Pointer[source.Sources]

	durations     prometheus.Histogram
	operations    *prometheus.CounterVec
	renders       *prometheus.CounterVec
	requests      *prometheus.CounterVec
	fetches       *prometheus.CounterVec
	fetching      prometheus.Histogram
	evictions     *prometheus.CounterVec
	writes        prometheus.Counter
	eventsDropped prometheus.Counter
}

// NewMetrics registers the metrics; a nil registerer keeps them unregistered. The
// registerer puts slipway_gitops_ before their names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	metrics := promauto.With(registerer)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		durations: metrics.NewHistogram(prometheus.HistogramOpts{Name: "reconcile_seconds",
			Help: "Duration of a reconcile run of an Application.", Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 30}}),
		operations: counter("operations_total", "Operations that ended, by phase. Running are those that will be retried.", "phase"),
		renders:    counter("renders_total", "Renders, by result.", "result"),
		requests:   counter("api_requests_total", "Requests to the API server, by method, resource and status code.", "method", "resource", "code"),
		fetches:    counter("source_requests_total", "Requests to Git servers, chart repositories and registries, by kind of request and result.", "what", "result"),
		fetching: metrics.NewHistogram(prometheus.HistogramOpts{Name: "source_request_seconds",
			Help: "Time of a request to a Git server, chart repository or registry.", Buckets: []float64{.01, .05, .1, .5, 1, 5, 30, 120}}),
		evictions:     counter("source_evictions_total", "Repositories, charts and indexes that a project lost because it exceeded its disk space.", "project"),
		writes:        metrics.NewCounter(prometheus.CounterOpts{Name: "status_writes_total", Help: "Writes of the status of an Application."}),
		eventsDropped: metrics.NewCounter(prometheus.CounterOpts{Name: "events_lost_total", Help: "Events that were dropped."}),
	}
	if registerer != nil {
		registerer.MustRegister((*countedApplications)(m))
	}
	return m
}

// countedApplications counts the Applications at each scrape, so that no
// counter has to follow every status write.
type countedApplications Metrics

// applicationsDesc describes the number of Applications by sync status and
// health.
func applicationsDesc() *prometheus.Desc {
	return prometheus.NewDesc("applications", "Applications, by the state of their sync and their health.", []string{"sync", "health"}, nil)
}

// queueDesc describes the length of the queue of Applications.
func queueDesc() *prometheus.Desc {
	return prometheus.NewDesc("queue_length", "Items that wait for a worker.", nil, nil)
}

// diskDesc describes the disk space of each project.
func diskDesc() *prometheus.Desc {
	return prometheus.NewDesc("source_disk_bytes", "Disk space that the repositories, charts and indexes of a project use. What several projects use counts for each of them.", []string{"project"}, nil)
}

// Describe is for Prometheus.
func (m *countedApplications) Describe(to chan<- *prometheus.Desc) {
	to <- applicationsDesc()
	to <- queueDesc()
	to <- diskDesc()
}

// Collect counts the Applications.
func (m *countedApplications) Collect(to chan<- prometheus.Metric) {
	if sources := m.sources.Load(); sources != nil {
		for project, bytes := range sources.DiskUsage() {
			to <- prometheus.MustNewConstMetric(diskDesc(), prometheus.GaugeValue, float64(bytes), project)
		}
	}
	controller := (*Metrics)(m).controller.Load()
	if controller == nil {
		return
	}
	type state struct{ sync, health string }
	counts := map[state]int{}
	for _, app := range controller.store.all() {
		if !controller.owns(identityOf(app)) {
			continue // the replica that owns it counts it
		}
		counts[state{string(app.Status.Sync.Status), string(app.Status.Health.Status)}]++
	}
	for of, count := range counts {
		to <- prometheus.MustNewConstMetric(applicationsDesc(), prometheus.GaugeValue, float64(count), of.sync, of.health)
	}
	to <- prometheus.MustNewConstMetric(queueDesc(), prometheus.GaugeValue, float64(controller.queue.length()))
}

// operated counts an operation that ended, or that will be retried.
func (m *Metrics) operated(phase v1alpha1.OperationPhase) {
	m.operations.WithLabelValues(string(phase)).Inc()
}

// rendered counts a render by its result: ok, the kind of the failure, or Ended
// for a context that was done.
func (m *Metrics) rendered(err error) {
	result := "ok"
	var failure *render.Error
	switch {
	case errors.As(err, &failure):
		result = string(failure.Kind)
	case err != nil:
		result = "Ended"
	}
	m.renders.WithLabelValues(result).Inc()
}

// Fetched counts a request to a Git server, a chart repository or a registry. It
// is for source.Options.
func (m *Metrics) Fetched(fetch source.Fetch) {
	result := "ok"
	var fault *source.Error
	switch {
	case errors.As(fetch.Err, &fault):
		result = string(fault.Kind)
	case fetch.Err != nil:
		result = "Failed"
	}
	m.fetches.WithLabelValues(fetch.What, result).Inc()
	m.fetching.Observe(fetch.Took.Seconds())
}

// Evicted counts a part of the cache that a project lost. It is for
// source.Options.
func (m *Metrics) Evicted(project string, _ int64) { m.evictions.WithLabelValues(project).Inc() }

// Watch measures the disk space of the sources at each scrape.
func (m *Metrics) Watch(sources *source.Sources) { m.sources.Store(sources) }

// Transport counts requests to the API server. It is for the Wrap of a
// rest.Config.
func (m *Metrics) Transport(next http.RoundTripper) http.RoundTripper {
	return &countingTransport{next, m.requests}
}

// countingTransport counts requests to the API server by method, resource and
// status code.
type countingTransport struct {
	next  http.RoundTripper
	count *prometheus.CounterVec
}

// RoundTrip sends a request and counts its response.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	code := "none"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.count.WithLabelValues(request.Method, resourceOf(request.URL.Path), code).Inc()
	return response, err
}

// resourceOf returns the resource of a path of the API server, such as pods or
// applications/status; empty for one without, such as discovery. There are as many as
// the kinds that Applications have.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return ""
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// WrappedRoundTripper lets client-go find the transport that has the idle
// connections.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
