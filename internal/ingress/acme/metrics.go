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

// holding is a certificate that is looked after; one that is missing has no end.
type holding struct{ notAfter time.Time }

// Metrics are those of the Manager. Which certificates there are is told by the
// replica that leads.
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
			Name: "orders_total", Help: "Orders of certificates, by resolver and result."}, []string{"resolver", "result"}),
		certificates: prometheus.NewDesc("certificates",
			"Certificates that are wished for, by state; only the replica that leads has them.", []string{"state"}, nil),
		expiry: prometheus.NewDesc("next_expiry_seconds",
			"Time until the first of all fetched certificates expires, negative when one has; only the replica that leads has it.", nil, nil),
	}
	registerer.MustRegister(m.orders, m)
	return m
}

func (m *Metrics) follow(manager *Manager) { m.manager.Store(manager) }

// Describe tells Prometheus what Collect gives.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.certificates
	to <- m.expiry
}

// Collect gives the state at this moment.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	manager := m.manager.Load()
	if manager == nil {
		return
	}
	states, next := manager.stock(time.Now())
	for state, count := range states {
		to <- prometheus.MustNewConstMetric(m.certificates, prometheus.GaugeValue, float64(count), state)
	}
	if next != nil {
		to <- prometheus.MustNewConstMetric(m.expiry, prometheus.GaugeValue, next.Seconds())
	}
}

// stock counts the certificates by state, and gives the time until the first
// expires. Who does not lead has none.
func (m *Manager) stock(now time.Time) (states map[string]int, next *time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.holdings) == 0 {
		return nil, nil
	}
	states = map[string]int{stateValid: 0, stateExpired: 0, stateMissing: 0}
	for _, h := range m.holdings {
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

func (m *Manager) hold(ref snapshot.Ref, has holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdings[ref] = has
}

func (m *Manager) release(ref snapshot.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holdings, ref)
}
