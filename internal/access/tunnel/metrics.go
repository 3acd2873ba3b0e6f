package tunnel

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the agent's end of the tunnel.
type Metrics struct {
	connections prometheus.Gauge
	streams     prometheus.Gauge
	tries       *prometheus.CounterVec
	ends        *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// NewMetrics registers the metrics; a nil registerer keeps them unregistered. The
// registerer adds the prefix slipway_tunnel_ to their names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	metrics := promauto.With(registerer)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &Metrics{
		connections: metrics.NewGauge(prometheus.GaugeOpts{Name: "connections", Help: "Connections to the platform."}),
		streams:     metrics.NewGauge(prometheus.GaugeOpts{Name: "streams", Help: "Open streams of the platform, including idle ones."}),
		tries:       counter("connects_total", "Connection attempts to the platform, by outcome: connected, refused, unreachable, token.", "outcome"),
		ends:        counter("disconnects_total", "Closed connections, by reason: lost, moved, refused, stopped.", "reason"),
		bytes:       counter("bytes_total", "Bytes transferred through the tunnel, by direction: in, out.", "direction"),
	}
}
