package fleet

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what the runtimes do.
type Metrics struct {
	registrations, heartbeats, renewals, reports *prometheus.CounterVec
	events                                       prometheus.Counter
	watches                                      prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := newMetrics()
	registry.MustRegister(m.registrations, m.heartbeats, m.renewals, m.reports, m.events, m.watches)
	return m
}

func newMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
	}
	return &Metrics{
		registrations: counter("registrations_total", "Registrations of runtimes, by outcome: new, again, refused."),
		heartbeats:    counter("heartbeats_total", "Heartbeats of runtimes, by outcome: ok, failed."),
		renewals:      counter("renewals_total", "Renewals of runtimes' credentials, by outcome: ok, denied, reused, failed."),
		reports:       counter("reports_total", "Reports of runtimes, by outcome: ok, resync, failed."),
		events:        prometheus.NewCounter(prometheus.CounterOpts{Name: "report_events_total", Help: "Changes in the reports of runtimes."}),
		watches:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "watches", Help: "Streams that clients have open."}),
	}
}

// outcome is the label of a result.
func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
