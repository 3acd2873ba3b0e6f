package edge

import (
	"github.com/prometheus/client_golang/prometheus"
)

// collect shows what the parts of a Server count themselves. It is called once,
// with the Server that the Metrics are for.
func (m *Metrics) collect(s *Server) {
	counter := func(name, help string, count func() uint64) {
		m.registerer.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(count()) }))
	}
	counter("upstream_connects_total", "Connections made to endpoints.", func() uint64 { return s.upstreams.Stats().Connects })
	counter("upstream_connect_failures_total", "Connections to endpoints that could not be made.", func() uint64 { return s.upstreams.Stats().ConnectFailures })
	counter("upstream_ejections_total", "Endpoints that got no more requests because they failed.", func() uint64 { return s.upstreams.Stats().Ejections })
	counter("upstream_overloads_total", "Requests refused because all endpoints had as many as they may.", func() uint64 { return s.upstreams.Stats().Overloads })
	counter("bodies_refused_total", "Bodies that policies were to keep and there was no room for.", func() uint64 { return s.proxy.Stats().BuffersRefused })
	counter("mirrors_sent_total", "Copies of requests that were sent.", func() uint64 { return s.proxy.Stats().Mirrored })
	counter("mirrors_dropped_total", "Copies of requests that were not sent because too many ran.", func() uint64 { return s.proxy.Stats().MirrorsDropped })
	counter("retries_refused_total", "Requests that were not sent again because too many were.", func() uint64 { return s.proxy.Stats().RetriesRefused })
	counter("compressions_refused_total", "Answers that were not compressed because too many were.", func() uint64 { return s.proxy.Stats().EncodersRefused })
	m.registerer.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "bodies_held_bytes", Help: "Memory of the bodies that policies keep."},
		func() float64 { return float64(s.proxy.Stats().BufferedBytes) }))
	m.registerer.MustRegister(&expiry{server: s, desc: prometheus.NewDesc(
		"certificate_not_after_seconds", "When a certificate ends, as a Unix time.", []string{"namespace", "name"}, nil)})
}

// expiry shows when the certificates in use end. There are as many as the table
// has.
type expiry struct {
	server *Server
	desc   *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (e *expiry) Describe(descs chan<- *prometheus.Desc) { descs <- e.desc }

// Collect implements [prometheus.Collector].
func (e *expiry) Collect(metrics chan<- prometheus.Metric) {
	for _, certificate := range e.server.Certificates() {
		metrics <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue,
			float64(certificate.NotAfter.Unix()), certificate.ID.Namespace, certificate.ID.Name)
	}
}
