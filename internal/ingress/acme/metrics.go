package acme

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The results of an order.
const (
	resultIssued  = "issued"
	resultRenewed = "renewed"
	resultFailed  = "failed"
)

// The states of a certificate.
const (
	stateValid   = "valid"
	stateExpired = "expired"
	stateMissing = "missing"
)

// trackedCertificate is the expiry of a requested certificate; zero while it is missing.
type trackedCertificate struct{ notAfter time.Time }

// Metrics are the metrics of the Manager. Only the leader has the gauges about
// certificates, so that a sum over replicas counts each once.
type Metrics struct {
	orders       *prometheus.CounterVec
	certificates *prometheus.Desc
	expiry       *prometheus.Desc
	manager      atomic.Pointer[Manager]
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orders_total", Help: "Certificate orders, by resolver and result."}, []string{"resolver", "result"}),
		certificates: prometheus.NewDesc("certificates",
			"Certificates that Ingresses request, by state; only the leader has it.", []string{"state"}, nil),
		expiry: prometheus.NewDesc("next_expiry_seconds",
			"Time until the first of the issued certificates expires, negative when one has; only the leader has it.", nil, nil),
	}
	registerer.MustRegister(m.orders, m)
	return m
}

// attach sets the Manager that Collect reads; before that there is nothing to show.
func (m *Metrics) attach(manager *Manager) { m.manager.Store(manager) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.certificates
	to <- m.expiry
}

// Collect implements prometheus.Collector with the state at the time of the
// scrape.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	manager := m.manager.Load()
	if manager == nil {
		return
	}
	states, next := manager.countByState(time.Now())
	for state, count := range states {
		to <- prometheus.MustNewConstMetric(m.certificates, prometheus.GaugeValue, float64(count), state)
	}
	if next != nil {
		to <- prometheus.MustNewConstMetric(m.expiry, prometheus.GaugeValue, next.Seconds())
	}
}

// countByState counts the tracked certificates by state, and returns the time until
// the first expires. A replica that does not lead tracks none.
func (m *Manager) countByState(now time.Time) (states map[string]int, next *time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tracked) == 0 {
		return nil, nil
	}
	states = map[string]int{stateValid: 0, stateExpired: 0, stateMissing: 0}
	for _, h := range m.tracked {
		left := h.notAfter.Sub(now)
		switch {
		case h.notAfter.IsZero():
			states[stateMissing]++
			continue
		case left < 0:
			states[stateExpired]++
		default:
			states[stateValid]++
		}
		if next == nil || left < *next {
			next = &left
		}
	}
	return states, next
}

// track records the expiry of a certificate for the metrics.
func (m *Manager) track(ref snapshot.Ref, has trackedCertificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tracked[ref] = has
}

// untrack removes a certificate that is no longer requested.
func (m *Manager) untrack(ref snapshot.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tracked, ref)
}
