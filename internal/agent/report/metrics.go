package report

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of a reporter.
type Metrics struct {
	pending  prometheus.Gauge
	bytes    prometheus.Gauge
	sent     *prometheus.CounterVec
	resyncs  *prometheus.CounterVec
	spoolErr prometheus.Counter
}

// NewMetrics registers the metrics; a nil registry keeps them unregistered. The
// registry adds a prefix such as slipway_report_.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	metrics := promauto.With(registry)
	return &Metrics{
		pending: metrics.NewGauge(prometheus.GaugeOpts{Name: "pending", Help: "Applications whose newest state the platform does not have yet."}),
		bytes:   metrics.NewGauge(prometheus.GaugeOpts{Name: "spool_bytes", Help: "Size of what waits on disk for the platform."}),
		sent: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "batches_total", Help: "Batches to the platform, by what became of them.",
		}, []string{"outcome"}),
		resyncs: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "resyncs_total", Help: "Number of full reports to the platform, by reason.",
		}, []string{"reason"}),
		spoolErr: metrics.NewCounter(prometheus.CounterOpts{Name: "spool_errors_total", Help: "Times that the spool could not be written."}),
	}
}

// spooled sets the size of the spool.
func (m *Metrics) spooled(s *spool) {
	m.pending.Set(float64(s.waiting.len() + len(s.inFlight)))
	m.bytes.Set(float64(s.size))
}

// batch counts a batch by outcome.
func (m *Metrics) batch(err error) {
	if err != nil {
		m.sent.WithLabelValues("failed").Inc()
		return
	}
	m.sent.WithLabelValues("ok").Inc()
}

// resync counts a resync by reason.
func (m *Metrics) resync(reason string) { m.resyncs.WithLabelValues(reason).Inc() }
