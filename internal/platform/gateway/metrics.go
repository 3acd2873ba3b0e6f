package gateway

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of requests to runtimes.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics; a nil registry keeps them unregistered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	metrics := promauto.With(registry)
	return &Metrics{
		requests: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "requests_total", Help: "Requests to runtimes, by service and status class.",
		}, []string{"service", "status"}),
		duration: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "request_seconds", Help: "Duration of requests to runtimes, including streams.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600},
		}, []string{"service"}),
	}
}

// observe counts a finished request. The service label comes from the fixed
// prefixes, so its cardinality is bounded.
func (m *Metrics) observe(prefix string, status int, took time.Duration) {
	service := cmp.Or(strings.Trim(prefix, "/"), "none")
	m.requests.WithLabelValues(service, strconv.Itoa(status/100)+"xx").Inc()
	m.duration.WithLabelValues(service).Observe(took.Seconds())
}
