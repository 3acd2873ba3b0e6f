package edge

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/waf"
)

// durationBuckets are for a proxy: most responses take milliseconds.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Metrics are the metrics of the data plane. Their labels have a bounded number
// of values: nothing that a client can choose is in them.
type Metrics struct {
	requests          *prometheus.CounterVec
	durations         *prometheus.HistogramVec
	open              *prometheus.GaugeVec
	refused           *prometheus.CounterVec
	bans              *prometheus.CounterVec
	failed            *prometheus.CounterVec
	tables            *prometheus.CounterVec
	applyDuration     prometheus.Histogram
	sessions          *prometheus.CounterVec
	quic              *prometheus.CounterVec
	mismatched        *prometheus.CounterVec
	handshakeFailures *prometheus.CounterVec
	pressure          prometheus.Gauge
	tcp               *prometheus.CounterVec
	inspected         *prometheus.CounterVec
	matched           *prometheus.CounterVec
	uninspected       prometheus.Counter
	// registerer registers the counters of the parts of a Server.
	registerer prometheus.Registerer
	points     map[string]*pointMetrics
}

// pointMetrics has the metrics of one entry point, so that a request needs no
// lookup by label.
type pointMetrics struct {
	statuses [600]atomic.Pointer[prometheus.Counter]
	duration prometheus.Observer
}

// NewMetrics registers the metrics for the entry points.
func NewMetrics(registerer prometheus.Registerer, entryPoints []EntryPoint) *Metrics {
	metrics := promauto.With(registerer)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		requests: counter("requests_total", "Requests by entry point and status; status 0 got no response.", "entry_point", "status"),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "request_duration_seconds", Help: "Time from the head of a request to the end of its response.", Buckets: durationBuckets},
			[]string{"entry_point"}),
		open:    metrics.NewGaugeVec(prometheus.GaugeOpts{Name: "connections_open", Help: "Open connections of clients."}, []string{"entry_point"}),
		refused: counter("connections_refused_total", "Connections that were refused, by reason.", "entry_point", "reason"),
		bans:    counter("client_bans_total", "Clients that were banned for a while because they flooded again and again.", "entry_point"),
		failed:  counter("accept_errors_total", "Errors of the kernel when accepting a connection.", "entry_point"),
		tables:  counter("tables_total", "Routing tables, by result of applying them.", "result"),
		applyDuration: metrics.NewHistogram(prometheus.HistogramOpts{
			Name: "table_apply_duration_seconds", Help: "Time to apply a routing table.", Buckets: durationBuckets}),
		sessions:          counter("http2_connections_closed_total", "HTTP/2 connections that were closed, by reason.", "entry_point", "reason"),
		quic:              counter("http3_connections_closed_total", "HTTP/3 connections that were closed, by reason.", "entry_point", "reason"),
		mismatched:        counter("connections_protocol_mismatch_total", "Connections that were closed because their entry point does not serve their protocol: TLS on a plain one, or neither TLS nor HTTP.", "entry_point"),
		handshakeFailures: counter("tls_handshakes_failed_total", "TLS handshakes that failed or timed out.", "entry_point"),
		tcp:               counter("tcp_connections_total", "Connections of TCP routes that ended: forwarded to an endpoint (passed), or closed without one (closed).", "entry_point", "result"),
		inspected:         counter("waf_requests_total", "Requests that the web application firewall inspected: passed, matched (with rules that did not end them), or denied.", "result"),
		matched:           counter("waf_matches_total", "Matches of firewall rules, by class: the first three digits of a rule of the Core Rule Set, or custom.", "class"),
		uninspected: metrics.NewCounter(prometheus.CounterOpts{
			Name: "waf_bodies_skipped_total", Help: "Bodies of requests that were too large to be inspected, and passed."}),
		pressure: metrics.NewGauge(prometheus.GaugeOpts{
			Name: "memory_pressure", Help: "Memory pressure: 0 normal, 1 connections are not kept open, 2 requests are refused."}),
		points: map[string]*pointMetrics{}, registerer: registerer,
	}
	for _, point := range entryPoints {
		m.points[point.Name] = &pointMetrics{duration: m.durations.WithLabelValues(point.Name)}
	}
	return m
}

// observe counts one exchange. It runs for every request, so counters are
// cached by status: a lookup by label would take longer than all the rest. A
// status that two requests see first at the same time is looked up twice, which
// does no harm.
func (m *Metrics) observe(r *proxy.Record) {
	if r.TCPRoute != nil {
		result := "passed"
		if r.Endpoint == "" {
			result = "closed"
		}
		m.tcp.WithLabelValues(r.EntryPoint, result).Inc()
		return
	}
	point := m.points[r.EntryPoint]
	if r.Unrecorded().Metrics || point == nil || r.Status < 0 || r.Status >= len(point.statuses) {
		return
	}
	counter := point.statuses[r.Status].Load()
	if counter == nil {
		made := m.requests.WithLabelValues(r.EntryPoint, strconv.Itoa(r.Status))
		counter = &made
		point.statuses[r.Status].Store(counter)
	}
	(*counter).Inc()
	point.duration.Observe(r.Duration.Seconds())
}

// applied counts a table that was applied or refused.
func (m *Metrics) applied(took time.Duration, err error) {
	m.applyDuration.Observe(took.Seconds())
	result := "applied"
	if err != nil {
		result = "refused"
	}
	m.tables.WithLabelValues(result).Inc()
}

// protocolMismatch counts a connection with a protocol that its entry point
// does not serve.
func (m *Metrics) protocolMismatch(entryPoint string) { m.mismatched.WithLabelValues(entryPoint).Inc() }

// handshakeFailed counts a TLS handshake that failed.
func (m *Metrics) handshakeFailed(entryPoint string) {
	m.handshakeFailures.WithLabelValues(entryPoint).Inc()
}

// streamHooks count HTTP/2 connections by the reason of their end, so that each
// kind of flood has a counter.
func (m *Metrics) streamHooks(entryPoint string) h2.Hooks {
	return h2.Hooks{Closed: func(reason string) { m.sessions.WithLabelValues(entryPoint, reason).Inc() }}
}

// http3Hooks count HTTP/3 connections like those of TCP, and by the reason of
// their end.
func (m *Metrics) http3Hooks(entryPoint string) h3.Hooks {
	open := m.open.WithLabelValues(entryPoint)
	return h3.Hooks{
		Opened: open.Inc,
		Closed: func(reason string) {
			open.Dec()
			m.quic.WithLabelValues(entryPoint, reason).Inc()
		},
		Refused: func(reason string) { m.refused.WithLabelValues(entryPoint, reason).Inc() },
	}
}

// hooks count the TCP connections of an entry point.
func (m *Metrics) hooks(entryPoint string) listener.Hooks {
	open, failed := m.open.WithLabelValues(entryPoint), m.failed.WithLabelValues(entryPoint)
	return listener.Hooks{
		Opened:       open.Inc,
		Closed:       func(time.Duration) { open.Dec() },
		Refused:      func(reason listener.RefuseReason) { m.refused.WithLabelValues(entryPoint, string(reason)).Inc() },
		AcceptFailed: func(error) { failed.Inc() },
	}
}

// relayHook counts the datagrams of new clients at the limit of a relay: each ends the
// flow of another client, or is dropped.
func (m *Metrics) relayHook(entryPoint string) func(evicted bool) {
	replaced, dropped := m.refused.WithLabelValues(entryPoint, "flow_evicted"), m.refused.WithLabelValues(entryPoint, "flow_limit")
	return func(evicted bool) {
		if evicted {
			replaced.Inc()
			return
		}
		dropped.Inc()
	}
}

// observeInspection counts a request that the firewall inspected.
func (m *Metrics) observeInspection(outcome *waf.Outcome) {
	matched := outcome.Matched()
	result := "passed"
	switch {
	case outcome.Denied:
		result = "denied"
	case len(matched) > 0:
		result = "matched"
	}
	m.inspected.WithLabelValues(result).Inc()
	if outcome.Skipped {
		m.uninspected.Inc()
	}
	for _, rule := range matched {
		m.matched.WithLabelValues(waf.Class(rule.Rule().ID())).Inc()
	}
}
