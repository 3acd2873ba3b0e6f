package observe_test

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/observe"
)

// sizes is a collector of its own with a histogram and a gauge.
type sizes struct{}

func (sizes) Describe(to chan<- *prometheus.Desc) {
	to <- prometheus.NewDesc("body_bytes", "Sizes, \"quoted\".", []string{"route"}, nil)
	to <- prometheus.NewDesc("buffers", "Buffers.", nil, nil)
}

func (sizes) Collect(chan<- prometheus.Metric) { panic("nothing is collected for a declaration") }

func (sizes) Histograms() []string { return []string{"body_bytes"} }

// TestDeclare: declarations have the full name, type and labels of every kind of
// collector, and no collector is asked for a value.
func TestDeclare(t *testing.T) {
	got := observe.Declare(func(metrics *observe.Metrics) {
		registerer := metrics.For("shop")
		registerer.MustRegister(sizes{},
			prometheus.NewCounterVec(prometheus.CounterOpts{Name: "orders_total", Help: "Orders."}, []string{"kind", "by"}),
			prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wait_seconds", Help: "Waits."}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "open", Help: "Open."}, func() float64 { panic("no value") }))
		for _, result := range []string{"ok", "failed"} {
			registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "lines_total", Help: "Lines.", ConstLabels: prometheus.Labels{"result": result}}, nil))
		}
	})
	want := []observe.Declaration{
		{Name: "slipway_shop_body_bytes", Type: "histogram", Help: `Sizes, "quoted".`, Labels: []string{"route"}},
		{Name: "slipway_shop_buffers", Type: "gauge", Help: "Buffers."},
		{Name: "slipway_shop_lines_total", Type: "counter", Help: "Lines.", Labels: []string{"result"}},
		{Name: "slipway_shop_open", Type: "gauge", Help: "Open."},
		{Name: "slipway_shop_orders_total", Type: "counter", Help: "Orders.", Labels: []string{"by", "kind"}},
		{Name: "slipway_shop_wait_seconds", Type: "histogram", Help: "Waits."},
	}
	if !slices.EqualFunc(got, want, func(a, b observe.Declaration) bool {
		return a.Name == b.Name && a.Type == b.Type && a.Help == b.Help && slices.Equal(a.Labels, b.Labels)
	}) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
