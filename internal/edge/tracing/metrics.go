package tracing

import "github.com/prometheus/client_golang/prometheus"

// Register registers the counters.
func (t *Tracer) Register(registerer prometheus.Registerer) {
	// The counters are read at scrape time.
	for result, count := range map[string]func(Stats) uint64{
		"sent":   func(s Stats) uint64 { return s.Sent },
		"failed": func(s Stats) uint64 { return s.Failed },
	} {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "trace_spans_total", Help: "Spans that were exported to the collector, by result.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count(t.Stats())) }))
	}
}
