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

// metricsPrefix is the prefix of our own metrics. Those of the Go runtime and of
// the process keep the names that dashboards use.
const metricsPrefix = "slipway_"

const (
	// scrapeTimeout bounds one scrape.
	scrapeTimeout = 10 * time.Second
	// maxScrapes bounds concurrent scrapes.
	maxScrapes = 4
)

// Metrics is the registry of the program. The global one of the library is not
// used: its content depends on the packages that happen to be linked.
type Metrics struct {
	registry *prometheus.Registry
	// declared is set while metrics are only declared, see Declare.
	declared map[string]Declaration
}

// NewMetrics returns a registry with the metrics of the Go runtime and of the
// process, and slipway_build_info.
func NewMetrics(version, commit string) *Metrics {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: metricsPrefix + "build_info",
		Help: "Always 1; the labels are the version and commit of the program.",
	}, []string{"version", "commit", "goversion"})
	build.WithLabelValues(version, commit, runtime.Version()).Set(1)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return &Metrics{registry: registry}
}

// For returns the registerer of one package, which prefixes its metrics with
// slipway_<area>_.
func (m *Metrics) For(area string) prometheus.Registerer {
	if m.declared != nil {
		return &declarer{prefix: metricsPrefix + area + "_", found: m.declared}
	}
	return prometheus.WrapRegistererWithPrefix(metricsPrefix+area+"_", m.registry)
}

// handler serves the metrics.
func (m *Metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}
