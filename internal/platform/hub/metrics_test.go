package hub_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/programs"
)

// Both ends count connections, streams, bytes and what failed, and no label is a name
// of a runtime.
func TestMetrics(t *testing.T) {
	w := newWorld()
	platform, agent := prometheus.NewRegistry(), prometheus.NewRegistry()
	r := w.start(t, "one", func(o *hub.Options) { o.Metrics = hub.NewMetrics(platform) })
	a := w.join(t, "a", stuck, func(o *tunnel.Options) { o.Metrics = tunnel.NewMetrics(agent) }, r)
	a.await(t, 2)
	drop := hold(t, r, "a")
	_, _, _ = r.ask(t.Context(), "b", "GET", "/app-proxy/x", nil)
	for _, tt := range []struct {
		registry *prometheus.Registry
		want     map[string]float64 // 0.5 is anything above zero
	}{
		{platform, map[string]float64{"connections": 2, "runtimes": 1, "streams": 1, "handshakes_total/connected": 2,
			"requests_total/local": 1, "requests_total/offline": 1, "bytes_total/in": 0.5, "bytes_total/out": 0.5}},
		{agent, map[string]float64{"connections": 2, "streams": 1, "connects_total/connected": 2, "bytes_total/in": 0.5, "bytes_total/out": 0.5}},
	} {
		got := gather(t, tt.registry)
		for name, want := range tt.want {
			if value := got[name]; value != want && (want != 0.5 || value <= 0) {
				t.Errorf("%s is %v; want %v", name, value, want)
			}
		}
	}
	drop()
	a.stop()
	programs.Until(t, "the gauges are at zero", func() bool {
		p, g := gather(t, platform), gather(t, agent)
		return p["connections"]+p["streams"]+p["runtimes"]+g["connections"]+g["streams"] == 0
	})
	if got := gather(t, agent)["disconnects_total/stopped"]; got != 2 {
		t.Errorf("%v connections were stopped", got)
	}
}

// gather reads metrics as name/label.
func gather(t testing.TB, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, pair := range metric.GetLabel() {
				name += "/" + pair.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}
