package edge

import (
	"github.com/prometheus/client_golang/prometheus"
)

// collect registers the counters of the parts of a Server. It is called once,
// with the Server that the Metrics are for.
func (m *Metrics) collect(s *Server) {
	// The counters are read at each scrape, so that the parts count with plain
	// atomics and know nothing of Prometheus.
	counter := func(name, help string, count func() uint64) {
		m.registerer.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(count()) }))
	}
	counter("upstream_connects_total", "Connections made to endpoints.", func() uint64 { return s.upstreams.Stats().Connects })
	counter("upstream_connect_failures_total", "Connections to endpoints that could not be made.", func() uint64 { return s.upstreams.Stats().ConnectFailures })
	counter("upstream_ejections_total", "Endpoints that were ejected because they failed.", func() uint64 { return s.upstreams.Stats().Ejections })
	counter("upstream_overloads_total", "Requests refused because all endpoints had reached their limit of requests in flight.", func() uint64 { return s.upstreams.Stats().Overloads })
	counter("bodies_refused_total", "Bodies that were not buffered for policies because the memory for that was used up.", func() uint64 { return s.proxy.Stats().BuffersRefused })
	counter("mirrors_sent_total", "Mirrored requests that were sent.", func() uint64 { return s.proxy.Stats().Mirrored })
	counter("mirrors_dropped_total", "Mirrored requests that were not sent because too many were running.", func() uint64 { return s.proxy.Stats().MirrorsDropped })
	counter("retries_refused_total", "Retries that were not made because the retry budget was used up.", func() uint64 { return s.proxy.Stats().RetriesRefused })
	counter("compressions_refused_total", "Responses that were not compressed because too many encoders were running.", func() uint64 { return s.proxy.Stats().EncodersRefused })
	m.registerer.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "buffered_body_bytes", Help: "Memory of the bodies that are buffered for policies."},
		func() float64 { return float64(s.proxy.Stats().BufferedBytes) }))
	m.collectLimits(s)
	m.registerer.MustRegister(&expiry{server: s, desc: prometheus.NewDesc(
		"certificate_not_after_seconds", "When a certificate expires, as a Unix time.", []string{"namespace", "name"}, nil)})
	m.registerer.MustRegister(newReleaseMetrics(s.Releases))
}

// DeclareMetrics registers the metrics of a Server that does not exist, for
// their names.
func DeclareMetrics(registerer prometheus.Registerer) { NewMetrics(registerer, nil).collect(nil) }

// expiry exports when the certificates in use expire. There are as many series
// as the table has certificates.
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
