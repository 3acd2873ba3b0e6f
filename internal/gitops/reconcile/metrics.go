package reconcile

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

// Metrics are those of the engine. A nil one counts nothing.
type Metrics struct {
	controller atomic.Pointer[Controller]

	passes     prometheus.Histogram
	operations *prometheus.CounterVec
	renders    *prometheus.CounterVec
	requests   *prometheus.CounterVec
	fetches    *prometheus.CounterVec
	fetching   prometheus.Histogram
	writes     prometheus.Counter
	lost       prometheus.Counter
}

// NewMetrics registers the metrics. The registerer puts slipway_gitops_ before
// their names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "reconcile_seconds",
			Help: "Time of a look at an Application.", Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 30}}),
		operations: counter("operations_total", "Operations that ended, by phase. Running are those that are tried again.", "phase"),
		renders:    counter("renders_total", "Renders, by result.", "result"),
		requests:   counter("api_requests_total", "Requests to the API server, by method and status code.", "method", "code"),
		fetches:    counter("source_requests_total", "Requests to Git servers, chart repositories and registries, by what is asked and result.", "what", "result"),
		fetching: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "source_request_seconds",
			Help: "Time of a request to a Git server, chart repository or registry.", Buckets: []float64{.01, .05, .1, .5, 1, 5, 30, 120}}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{Name: "status_writes_total", Help: "Writes of the status of an Application."}),
		lost:   prometheus.NewCounter(prometheus.CounterOpts{Name: "events_lost_total", Help: "Events that were not written."}),
	}
	registerer.MustRegister(m.passes, m.operations, m.renders, m.requests, m.fetches, m.fetching, m.writes, m.lost, (*countedApplications)(m))
	return m
}

// countedApplications is what is counted when somebody asks.
type countedApplications Metrics

func applicationsDesc() *prometheus.Desc {
	return prometheus.NewDesc("applications", "Applications, by the state of their sync and their health.", []string{"sync", "health"}, nil)
}

func queueDesc() *prometheus.Desc {
	return prometheus.NewDesc("queue_length", "Tasks that wait for a worker.", nil, nil)
}

// Describe is for Prometheus.
func (m *countedApplications) Describe(to chan<- *prometheus.Desc) {
	to <- applicationsDesc()
	to <- queueDesc()
}

// Collect counts the Applications.
func (m *countedApplications) Collect(to chan<- prometheus.Metric) {
	controller := (*Metrics)(m).controller.Load()
	if controller == nil {
		return
	}
	type state struct{ sync, health string }
	counts := map[state]int{}
	for _, app := range controller.book.all() {
		counts[state{string(app.Status.Sync.Status), string(app.Status.Health.Status)}]++
	}
	for of, count := range counts {
		to <- prometheus.MustNewConstMetric(applicationsDesc(), prometheus.GaugeValue, float64(count), of.sync, of.health)
	}
	to <- prometheus.MustNewConstMetric(queueDesc(), prometheus.GaugeValue, float64(controller.queue.length()))
}

// follow has the Applications of a controller counted. It is that of the last
// one that was made.
func (m *Metrics) follow(c *Controller) {
	if m != nil {
		m.controller.Store(c)
	}
}

func (m *Metrics) reconciled(took time.Duration) {
	if m != nil {
		m.passes.Observe(took.Seconds())
	}
}

func (m *Metrics) operated(phase v1alpha1.OperationPhase) {
	if m != nil {
		m.operations.WithLabelValues(string(phase)).Inc()
	}
}

func (m *Metrics) rendered(err error) {
	if m == nil {
		return
	}
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

func (m *Metrics) wrote() {
	if m != nil {
		m.writes.Inc()
	}
}

func (m *Metrics) untold() {
	if m != nil {
		m.lost.Inc()
	}
}

// Fetched counts a request to a Git server, a chart repository or a registry. It
// is for source.Options.
func (m *Metrics) Fetched(fetch source.Fetch) {
	if m == nil {
		return
	}
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

// Transport counts requests to the API server. It is for the Wrap of a
// rest.Config.
func (m *Metrics) Transport(next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return &countingTransport{next, m.requests}
}

type countingTransport struct {
	next  http.RoundTripper
	count *prometheus.CounterVec
}

// RoundTrip passes a request on.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	code := "none"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	t.count.WithLabelValues(request.Method, code).Inc()
	return response, err
}

// WrappedRoundTripper lets client-go find the transport that has the idle
// connections.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
