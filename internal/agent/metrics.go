package agent

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/observe"
)

// Metrics are those of an agent: the engine's, slipway_gitops_…, and those of
// what is around it, slipway_agent_….
type Metrics struct {
	engine   *reconcile.Metrics
	leader   prometheus.Gauge
	webhooks *prometheus.CounterVec
	mail     *prometheus.CounterVec
	renders  *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry *observe.Metrics) *Metrics {
	m := &Metrics{
		engine: reconcile.NewMetrics(registry.For("gitops")),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader", Help: "1 while this replica works, 0 while it waits for the Lease.",
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhooks_total", Help: "Requests of Git hosts, by host and what became of them.",
		}, []string{"provider", "outcome"}),
		mail: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pushes_passed_on_total", Help: "Pushes that a replica that waits has passed on to the one that works, or could not.",
		}, []string{"outcome"}),
		renders: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "render_seconds", Help: "Renders, without the wait for a worker.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 8),
		}, []string{"outcome"}),
	}
	registry.For("agent").MustRegister(m.leader, m.webhooks, m.mail, m.renders)
	return m
}

// Transport counts requests to the API server. It is for the Wrap of a
// rest.Config.
func (m *Metrics) Transport(next http.RoundTripper) http.RoundTripper {
	return m.engine.Transport(next)
}

func (m *Metrics) heard(provider webhook.Provider, outcome webhook.Outcome) {
	m.webhooks.WithLabelValues(string(provider), string(outcome)).Inc()
}

func (m *Metrics) rendered(done render.Outcome) {
	outcome := "ok"
	if failed, ok := errors.AsType[*render.Error](done.Err); ok {
		outcome = string(failed.Kind)
	} else if done.Err != nil {
		outcome = "Ended"
	}
	m.renders.WithLabelValues(outcome).Observe(done.Duration.Seconds())
}
