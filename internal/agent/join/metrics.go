package join

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of a membership.
type Metrics struct {
	phases     *prometheus.GaugeVec
	heartbeats *prometheus.CounterVec
	renewals   *prometheus.CounterVec
	clock      prometheus.Gauge
}

// NewMetrics registers the metrics. The registry gives them their prefix, such as
// slipway_platform_.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		phases: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "phase", Help: "1 for how the runtime and its platform stand.",
		}, []string{"phase"}),
		heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heartbeats_total", Help: "Heartbeats to the platform, by what became of them.",
		}, []string{"outcome"}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "renewals_total", Help: "Registrations and renewals of the credential, by what became of them.",
		}, []string{"kind", "outcome"}),
		clock: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clock_skew_seconds", Help: "How far the platform's clock is before that of this machine.",
		}),
	}
	registry.MustRegister(m.phases, m.heartbeats, m.renewals, m.clock)
	return m
}

func (m *Metrics) phase(phase Phase) {
	if m == nil {
		return
	}
	m.phases.Reset()
	m.phases.WithLabelValues(string(phase)).Set(1)
}

func (m *Metrics) heartbeat(err error) {
	if m != nil {
		m.heartbeats.WithLabelValues(outcome(err)).Inc()
	}
}

func (m *Metrics) renewal(kind string, err error) {
	if m != nil {
		m.renewals.WithLabelValues(kind, outcome(err)).Inc()
	}
}

func (m *Metrics) skew(skew time.Duration) {
	if m != nil {
		m.clock.Set(skew.Seconds())
	}
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
