package observe

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsPrefix starts the name of each metric that is ours. The metrics of
// the Go runtime and of the process keep the names that dashboards know.
const metricsPrefix = "slipway_"

const (
	// scrapeTimeout bounds one reading of all metrics.
	scrapeTimeout = 10 * time.Second
	// maxScrapes bounds how many of them run at a time.
	maxScrapes = 4
)

// Metrics is the program's own registry. The global one of the library is not
// used: what is in it depends on what happens to be linked.
type Metrics struct {
	registry *prometheus.Registry
}

// NewMetrics makes a registry that has the metrics of the Go runtime, of the
// process, and slipway_build_info.
func NewMetrics(version, commit string) *Metrics {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: metricsPrefix + "build_info",
		Help: "Always 1; the labels say what is running.",
	}, []string{"version", "commit", "goversion"})
	build.WithLabelValues(version, commit, runtime.Version()).Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return &Metrics{registry: registry}
}

// For gives the registerer of one package: its metrics are then named
// slipway_<area>_….
func (m *Metrics) For(area string) prometheus.Registerer {
	return prometheus.WrapRegistererWithPrefix(metricsPrefix+area+"_", m.registry)
}

// Gatherer gives what reads all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// handler serves the metrics.
func (m *Metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}
