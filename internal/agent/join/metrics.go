package join

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of a membership.
type Metrics struct {
	// phases has one series for each phase, of which one is 1.
	phases     *prometheus.GaugeVec
	heartbeats *prometheus.CounterVec
	renewals   *prometheus.CounterVec
	// clock is the difference of the local clock to the platform's, in seconds.
	clock prometheus.Gauge
}

// NewMetrics registers the metrics; a nil registry keeps them unregistered. The
// registry adds a prefix such as slipway_platform_.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	metrics := promauto.With(registry)
	return &Metrics{
		phases: metrics.NewGaugeVec(prometheus.GaugeOpts{
			Name: "phase", Help: "1 for how the runtime and its platform stand.",
		}, []string{"phase"}),
		heartbeats: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "heartbeats_total", Help: "Heartbeats to the platform, by what became of them.",
		}, []string{"outcome"}),
		renewals: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "renewals_total", Help: "Registrations and renewals of the credential, by what became of them.",
		}, []string{"kind", "outcome"}),
		clock: metrics.NewGauge(prometheus.GaugeOpts{
			Name: "clock_skew_seconds", Help: "How far the platform's clock is before that of this machine.",
		}),
	}
}

// phase sets the gauge of one phase to 1 and all others to 0.
func (m *Metrics) phase(phase Phase) {
	m.phases.Reset()
	m.phases.WithLabelValues(string(phase)).Set(1)
}

// heartbeat counts a heartbeat by outcome.
func (m *Metrics) heartbeat(err error) { m.heartbeats.WithLabelValues(outcome(err)).Inc() }

// renewal counts a registration or a renewal by outcome.
func (m *Metrics) renewal(kind string, err error) {
	m.renewals.WithLabelValues(kind, outcome(err)).Inc()
}

// outcome is the label value of a result.
func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
