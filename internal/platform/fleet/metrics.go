package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of registrations, heartbeats, reports and watches.
type Metrics struct {
	registrations, heartbeats, renewals, reports *prometheus.CounterVec
	events                                       prometheus.Counter
	watches                                      prometheus.Gauge
}

// NewMetrics registers the metrics; a nil registry keeps them unregistered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	metrics := promauto.With(registry)
	counter := func(name, help string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
	}
	return &Metrics{
		registrations: counter("registrations_total", "Registrations of runtimes, by outcome: new, again, refused."),
		heartbeats:    counter("heartbeats_total", "Heartbeats of runtimes, by outcome: ok, failed."),
		renewals:      counter("renewals_total", "Renewals of runtimes' credentials, by outcome: ok, denied, reused, failed."),
		reports:       counter("reports_total", "Reports of runtimes, by outcome: ok, resync, failed."),
		events:        metrics.NewCounter(prometheus.CounterOpts{Name: "report_events_total", Help: "Events in reports of runtimes."}),
		watches:       metrics.NewGauge(prometheus.GaugeOpts{Name: "watches", Help: "Open watch streams of clients."}),
	}
}

// outcome returns the metric label of a result.
func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
