package hub

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the platform's end of the tunnel.
type Metrics struct {
	connections prometheus.Gauge
	runtimes    prometheus.Gauge
	streams     prometheus.Gauge
	handshakes  *prometheus.CounterVec
	ends        *prometheus.CounterVec
	requests    *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// NewMetrics registers the metrics; a nil registerer keeps them unregistered. The
// registerer adds the prefix slipway_hub_ to their names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	metrics := promauto.With(registerer)
	gauge := func(name, help string) prometheus.Gauge {
		return metrics.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &Metrics{
		connections: gauge("connections", "Connections of agents to this replica."),
		runtimes:    gauge("runtimes", "Runtimes with a connection to this replica."),
		streams:     gauge("streams", "Requests to agents in flight."),
		handshakes:  counter("handshakes_total", "Connection attempts of agents, by outcome: connected, denied, busy, draining, unavailable, failed.", "outcome"),
		ends:        counter("disconnects_total", "Closed connections, by reason: lost, denied, expired, moved, displaced, misbehaved, draining.", "reason"),
		requests:    counter("requests_total", "Requests to agents, by path or error: local, peer, offline, refused, limited, failed.", "outcome"),
		bytes:       counter("bytes_total", "Bytes transferred through tunnels, by direction: in, out.", "direction"),
	}
}
