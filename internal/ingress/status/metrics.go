package status

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the Writer.
type Metrics struct {
	writes    *prometheus.CounterVec
	events    *prometheus.CounterVec
	refused   prometheus.Counter
	leader    prometheus.Gauge
	addresses prometheus.Gauge
	contested prometheus.Counter
}

// The results of a write and of an Event.
const (
	resultWritten   = "written"
	resultWithdrawn = "withdrawn"
	resultConflict  = "conflict"
	resultFailed    = "failed"
	resultSent      = "sent"
)

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "status_writes_total", Help: "Writes of the status of an Ingress, by result."}, []string{"result"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "events_total", Help: "Events about refusals, by result."}, []string{"result"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "status_addresses_refused_total", Help: "Times that some of the addresses to publish were invalid or unknown; the log has the reason."}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader", Help: "1 while this replica is the leader, which writes status and Events."}),
		addresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "status_addresses", Help: "Number of published addresses; 0 while they are unknown."}),
		contested: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "status_contested_total", Help: "Times that a status was found overwritten again after three rewrites."}),
	}
	registerer.MustRegister(m.writes, m.events, m.refused, m.leader, m.addresses, m.contested)
	return m
}

func (m *Metrics) leads(leads bool) {
	if leads {
		m.leader.Set(1)
		return
	}
	m.leader.Set(0)
}
