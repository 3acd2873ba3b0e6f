package tunnel

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the agent's end of the tunnel.
type Metrics struct {
	connections prometheus.Gauge
	streams     prometheus.Gauge
	tries       *prometheus.CounterVec
	ends        *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// NewMetrics registers the metrics. The registerer adds the prefix slipway_tunnel_ to
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
			Name: "streams", Help: "Open streams of the platform, including idle ones.",
		}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "connects_total", Help: "Connection attempts to the platform, by outcome: connected, refused, unreachable, token.",
		}, []string{"outcome"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "disconnects_total", Help: "Closed connections, by reason: lost, moved, refused, stopped.",
		}, []string{"reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bytes_total", Help: "Bytes transferred through the tunnel, by direction: in, out.",
		}, []string{"direction"}),
	}
}
