package accesslog

import "github.com/prometheus/client_golang/prometheus"

// Register shows the counters as metrics: what became of requests on their way
// to a line.
func (l *Log) Register(registerer prometheus.Registerer) {
	for result, count := range map[string]func(Stats) uint64{
		"written":  func(s Stats) uint64 { return s.Written },
		"filtered": func(s Stats) uint64 { return s.Filtered },
		"dropped":  func(s Stats) uint64 { return s.Dropped },
		"failed":   func(s Stats) uint64 { return s.Failed },
	} {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "access_log_lines_total", Help: "Lines of the access log, by what became of them.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count(l.Stats())) }))
	}
}
