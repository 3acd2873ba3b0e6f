package report

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of a reporter.
type Metrics struct {
	pending  prometheus.Gauge
	bytes    prometheus.Gauge
	sent     *prometheus.CounterVec
	resyncs  *prometheus.CounterVec
	spoolErr prometheus.Counter
}

// NewMetrics registers the metrics. The registry adds a prefix such as
// slipway_report_.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pending", Help: "Applications whose newest state the platform does not have yet.",
		}),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spool_bytes", Help: "Size of what waits on disk for the platform.",
		}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "batches_total", Help: "Batches to the platform, by what became of them.",
		}, []string{"outcome"}),
		resyncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "resyncs_total", Help: "Times that everything was told anew, by the reason.",
		}, []string{"reason"}),
		spoolErr: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spool_errors_total", Help: "Times that the spool could not be written.",
		}),
	}
	registry.MustRegister(m.pending, m.bytes, m.sent, m.resyncs, m.spoolErr)
	return m
}

// spooled sets the size of the spool. Methods of a nil Metrics do nothing.
func (m *Metrics) spooled(s *spool) {
	if m != nil {
		m.pending.Set(float64(s.waiting.len() + len(s.inFlight)))
		m.bytes.Set(float64(s.size))
	}
}

// batch counts a batch by outcome.
func (m *Metrics) batch(err error) {
	if m == nil {
		return
	}
	if err != nil {
		m.sent.WithLabelValues("failed").Inc()
		return
	}
	m.sent.WithLabelValues("ok").Inc()
}

// resync counts a resync by reason.
func (m *Metrics) resync(reason string) {
	if m != nil {
		m.resyncs.WithLabelValues(reason).Inc()
	}
}

// spoolFailed counts a failure of the disk.
func (m *Metrics) spoolFailed() {
	if m != nil {
		m.spoolErr.Inc()
	}
}
