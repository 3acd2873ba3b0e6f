package router

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// part is the section of the router that a request addressed; it is a metric label.
type part string

const (
	partAppProxy  part = "app-proxy"
	partWebhooks  part = "webhooks"
	partWorkflows part = "workflows"
	partArgoCD    part = "argocd"
	partProbe     part = "probe"
	partOther     part = "other"
)

// outcome is the result of a request; it is a metric label.
type outcome string

const (
	outcomeServed          outcome = "served"
	outcomeRefused         outcome = "refused"
	outcomeUnauthenticated outcome = "unauthenticated"
	outcomeDenied          outcome = "denied"
	outcomeOverloaded      outcome = "overloaded"
)

// Metrics counts requests.
type Metrics struct {
	requests *prometheus.CounterVec
}

// NewMetrics registers the metrics of the router; a nil registerer keeps them
// unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	return &Metrics{requests: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "requests_total", Help: "Requests to the runtime, by part and outcome.",
	}, []string{"part", "outcome"})}
}

func (m *Metrics) count(part part, outcome outcome) {
	m.requests.WithLabelValues(string(part), string(outcome)).Inc()
}
