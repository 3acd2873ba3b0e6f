package ingress

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// propagationBuckets are fine for milliseconds, the normal case, and coarse above,
// where the value only shows that something is wrong.
var propagationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Metrics are the metrics of the Ingress controller.
type Metrics struct {
	refusals    *prometheus.GaugeVec
	propagation prometheus.Histogram
	resolving   prometheus.Histogram
}

// NewMetrics registers the metrics. age returns for how long the cluster could not
// be read, 0 while it can.
func NewMetrics(registerer prometheus.Registerer, age func() time.Duration) *Metrics {
	m := &Metrics{
		refusals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "refusals", Help: "Current refusals, by kind of object and reason."},
			[]string{"kind", "reason"}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "propagation_seconds", Help: "Time from the arrival of a change of the cluster until it is served.", Buckets: propagationBuckets}),
		resolving: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apply_seconds", Help: "Time to apply a change to the edge.", Buckets: propagationBuckets}),
	}
	registerer.MustRegister(m.refusals, m.propagation, m.resolving, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "table_age_seconds", Help: "Time for which the API server could not be read; 0 while it can."},
		func() float64 { return age().Seconds() }))
	return m
}

// applied observes a change that is live now.
func (m *Metrics) applied(received, began time.Time) {
	now := time.Now()
	m.resolving.Observe(now.Sub(began).Seconds())
	if !received.IsZero() {
		m.propagation.Observe(now.Sub(received).Seconds())
	}
}

// refused sets the gauges of refusals.
func (m *Metrics) refused(all []refusal.Refusal) {
	m.refusals.Reset()
	for i := range all {
		m.refusals.WithLabelValues(string(snapshot.RefOf(all[i].Object).Kind), string(all[i].Reason)).Inc()
	}
}
