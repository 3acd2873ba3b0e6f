package hub

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of the platform's end of the tunnel.
type Metrics struct {
	connections prometheus.Gauge
	runtimes    prometheus.Gauge
	streams     prometheus.Gauge
	handshakes  *prometheus.CounterVec
	ends        *prometheus.CounterVec
	requests    *prometheus.CounterVec
	bytes       *prometheus.CounterVec
}

// NewMetrics registers the metrics. The registerer puts slipway_hub_ before their
// names.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := newMetrics()
	registerer.MustRegister(m.connections, m.runtimes, m.streams, m.handshakes, m.ends, m.requests, m.bytes)
	return m
}

func newMetrics() *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &Metrics{
		connections: gauge("connections", "Connections of agents to this replica."),
		runtimes:    gauge("runtimes", "Runtimes with a connection to this replica."),
		streams:     gauge("streams", "Requests to agents that are running."),
		handshakes:  counter("handshakes_total", "Agents that wanted to connect, by outcome: connected, denied, busy, draining, unavailable, failed.", "outcome"),
		ends:        counter("disconnects_total", "Connections that ended, by reason: lost, denied, expired, moved, displaced, misbehaved, draining.", "reason"),
		requests:    counter("requests_total", "Requests to agents, by way and outcome: local, peer, offline, refused, limited, failed.", "outcome"),
		bytes:       counter("bytes_total", "Bytes through the tunnels, by direction: in, out.", "direction"),
	}
}
