package agent

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/observe"
)

// Metrics are the metrics of an agent: slipway_gitops_… for the delivery engine
// and slipway_agent_… for the parts around it.
type Metrics struct {
	// engine has the metrics of the reconcile loop, sources and requests.
	engine   *reconcile.Metrics
	leader   prometheus.Gauge
	members  prometheus.Gauge
	webhooks *prometheus.CounterVec
	relayed  *prometheus.CounterVec
	renders  *prometheus.HistogramVec
	waits    prometheus.Histogram
	notices  *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry *observe.Metrics) *Metrics {
	metrics := promauto.With(registry.For("agent"))
	return &Metrics{
		engine: reconcile.NewMetrics(registry.For("gitops")),
		leader: metrics.NewGauge(prometheus.GaugeOpts{
			Name: "leader", Help: "1 while this replica is the leader, 0 while it waits for the Lease.",
		}),
		members: metrics.NewGauge(prometheus.GaugeOpts{
			Name: "division_members", Help: "Replicas that divide the Applications, as this one sees them; 0 if they are not divided.",
		}),
		webhooks: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "webhooks_total", Help: "Webhook requests of Git hosts, by provider and outcome.",
		}, []string{"provider", "outcome"}),
		relayed: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "pushes_passed_on_total", Help: "Pushes that a standby replica relayed to the leader, by outcome.",
		}, []string{"outcome"}),
		renders: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "render_seconds", Help: "Duration of renders, without the wait for a worker.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 8),
		}, []string{"outcome"}),
		waits: metrics.NewHistogram(prometheus.HistogramOpts{
			Name: "render_wait_seconds", Help: "Time that a render waits for a worker.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 8),
		}),
		notices: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "notifications_total", Help: "Attempts to send a notification, by service and outcome.",
		}, []string{"service", "outcome"}),
	}
}

// Transport counts requests to the API server. It wraps the transport of a
// rest.Config.
func (m *Metrics) Transport(next http.RoundTripper) http.RoundTripper {
	return m.engine.Transport(next)
}

// webhookReceived counts a request of a Git host.
func (m *Metrics) webhookReceived(provider webhook.Provider, outcome webhook.Outcome) {
	m.webhooks.WithLabelValues(string(provider), string(outcome)).Inc()
}

// notified counts an attempt to send a notification. Services are named by operators, so
// that there are few.
func (m *Metrics) notified(service string, outcome notify.Outcome) {
	m.notices.WithLabelValues(service, string(outcome)).Inc()
}

// rendered observes one render. The outcome is the kind of error, so that a
// timeout is distinguished from an invalid chart.
func (m *Metrics) rendered(done render.Outcome) {
	// Errors without a kind end the process, such as a cancelled context.
	outcome := "ok"
	if failed, ok := errors.AsType[*render.Error](done.Err); ok {
		outcome = string(failed.Kind)
	} else if done.Err != nil {
		outcome = "Ended"
	}
	m.waits.Observe(done.Waited.Seconds())
	m.renders.WithLabelValues(outcome).Observe(done.Duration.Seconds())
}

// DeclareMetrics registers every metric that an agent can have, for
// [observe.Declare].
func DeclareMetrics(metrics *observe.Metrics) {
	NewMetrics(metrics)
	NewRuntimeMetrics(metrics)
}
