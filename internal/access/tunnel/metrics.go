package tunnel

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of the agent's end.
type Metrics struct {
	connections prometheus.Gauge
	streams     prometheus.Gauge
	tries       *prometheus.CounterVec
	ends        *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// NewMetrics registers the metrics. The registerer puts slipway_tunnel_ before
// their names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := newMetrics()
	registerer.MustRegister(m.connections, m.streams, m.tries, m.ends, m.bytes)
	return m
}

func newMetrics() *Metrics {
	return &Metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "connections", Help: "Connections to the platform.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "streams", Help: "Streams of the platform that are open, those that wait for another request too.",
		}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "connects_total", Help: "Tries to connect to the platform, by outcome: connected, refused, unreachable, token.",
		}, []string{"outcome"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "disconnects_total", Help: "Connections that ended, by reason: lost, moved, refused, stopped.",
		}, []string{"reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bytes_total", Help: "Bytes through the tunnel, by direction: in, out.",
		}, []string{"direction"}),
	}
}
