package ingress

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// propagationBuckets are for changes that are live within milliseconds, or not
// before something is wrong.
var propagationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Metrics are those of the provider.
type Metrics struct {
	refusals    *prometheus.GaugeVec
	propagation prometheus.Histogram
	resolving   prometheus.Histogram
}

// NewMetrics registers the metrics. age gives how long the table has not been
// kept up with the cluster, 0 while it is.
func NewMetrics(registerer prometheus.Registerer, age func() time.Duration) *Metrics {
	m := &Metrics{
		refusals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "refusals", Help: "What is written in objects and refused, by kind of object and reason."},
			[]string{"kind", "reason"}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "propagation_seconds", Help: "Time from the arrival of a change of the cluster to its being served.", Buckets: propagationBuckets}),
		resolving: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apply_seconds", Help: "Time that it takes to put a change in place.", Buckets: propagationBuckets}),
	}
	registerer.MustRegister(m.refusals, m.propagation, m.resolving, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "table_age_seconds", Help: "How long the API server has not been followed; 0 while it is."},
		func() float64 { return age().Seconds() }))
	return m
}

// applied counts a change that is live now.
func (m *Metrics) applied(received, began time.Time) {
	now := time.Now()
	m.resolving.Observe(now.Sub(began).Seconds())
	if !received.IsZero() {
		m.propagation.Observe(now.Sub(received).Seconds())
	}
}

// refused counts what is refused.
func (m *Metrics) refused(all []snapshot.Refusal) {
	m.refusals.Reset()
	for i := range all {
		m.refusals.WithLabelValues(string(all[i].Object.Kind), string(all[i].Reason)).Inc()
	}
}
