package accesslog

import "github.com/prometheus/client_golang/prometheus"

// Register registers the counters of lines by outcome.
func (l *Log) Register(registerer prometheus.Registerer) {
	// Each outcome is a label value, so that their sum is the number of requests.
	for result, count := range map[string]func(Stats) uint64{
		"written":  func(s Stats) uint64 { return s.Written },
		"filtered": func(s Stats) uint64 { return s.Filtered },
		"dropped":  func(s Stats) uint64 { return s.Dropped },
		"failed":   func(s Stats) uint64 { return s.Failed },
	} {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "access_log_lines_total", Help: "Lines of the access log, by outcome.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count(l.Stats())) }))
	}
}
