package history

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the history.
type Metrics struct {
	runs      *prometheus.CounterVec
	completed prometheus.Gauge
}

// NewMetrics registers the metrics; a nil registry keeps them unregistered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	metrics := promauto.With(registry)
	return &Metrics{
		runs: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "cleanups_total", Help: "Deletions of expired history by this replica, by outcome: ok, failed.",
		}, []string{"outcome"}),
		completed: metrics.NewGauge(prometheus.GaugeOpts{
			Name: "cleanup_completed_timestamp_seconds", Help: "When this replica last deleted all expired history; 0 if another one does.",
		}),
	}
}

// cleaned counts one deletion. The time is set by a success alone, so that an
// alert on its age covers failures and replicas that hang.
func (m *Metrics) cleaned(err error, at time.Time) {
	if err != nil {
		m.runs.WithLabelValues("failed").Inc()
		return
	}
	m.runs.WithLabelValues("ok").Inc()
	m.completed.Set(float64(at.Unix()))
}
