package observe

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The types of metrics, as Prometheus names them.
const (
	TypeCounter   = "counter"
	TypeGauge     = "gauge"
	TypeHistogram = "histogram"
)

// Declaration is a metric as the program declares it, without values.
type Declaration struct {
	Name, Type, Help string
	// Labels are sorted. They include those with a constant value.
	Labels []string
}

// WithHistograms is implemented by collectors that export histograms of their
// own: neither the collector nor the description has the type of such a metric.
type WithHistograms interface {
	// Histograms returns the names without the prefix of the registerer.
	Histograms() []string
}

// Declare returns the metrics that a function registers, sorted by name. The
// reference, the dashboards and the alerts are generated from them. Nothing is
// collected, so that the parts that a metric reads its value from need not exist.
func Declare(register func(*Metrics)) []Declaration {
	found := map[string]Declaration{}
	register(&Metrics{declared: found})
	made := make([]Declaration, 0, len(found))
	for _, one := range found {
		made = append(made, one)
	}
	slices.SortFunc(made, func(a, b Declaration) int { return cmp.Compare(a.Name, b.Name) })
	return made
}

// declarer is a registerer that only records the descriptions of collectors.
type declarer struct {
	prefix string
	found  map[string]Declaration
}

// Register implements [prometheus.Registerer].
func (d *declarer) Register(collector prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		collector.Describe(descs)
	}()
	for desc := range descs {
		name, help, labels := parseDesc(desc)
		one := Declaration{Name: d.prefix + name, Type: typeOf(collector, name), Help: help, Labels: labels}
		// A metric with constant labels has a collector for each of their values.
		one.Labels = append(one.Labels, d.found[one.Name].Labels...)
		slices.Sort(one.Labels)
		one.Labels = slices.Compact(one.Labels)
		d.found[one.Name] = one
	}
	return nil
}

// MustRegister implements [prometheus.Registerer].
func (d *declarer) MustRegister(collectors ...prometheus.Collector) {
	for _, one := range collectors {
		_ = d.Register(one)
	}
}

// Unregister implements [prometheus.Registerer].
func (d *declarer) Unregister(prometheus.Collector) bool { return false }

var (
	// descForm is the text of a description, which is the only way to read it.
	descForm = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	// constForm is one label with a constant value.
	constForm = regexp.MustCompile(`([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"`)
)

// parseDesc returns name, help and labels of a description.
func parseDesc(desc *prometheus.Desc) (name, help string, labels []string) {
	parts := descForm.FindStringSubmatch(desc.String())
	if parts == nil {
		return "", "", nil
	}
	// The expression admits quoted strings only.
	name, _ = strconv.Unquote(parts[1])
	help, _ = strconv.Unquote(parts[2])
	for _, label := range constForm.FindAllStringSubmatch(parts[3], -1) {
		labels = append(labels, label[1])
	}
	for label := range strings.SplitSeq(parts[4], ",") {
		if label = strings.TrimSuffix(strings.TrimPrefix(label, "c("), ")"); label != "" {
			labels = append(labels, label)
		}
	}
	return name, help, labels
}

// typeOf returns the type of a metric by its collector, and by its name for
// those that read a value at each scrape.
func typeOf(collector prometheus.Collector, name string) string {
	switch c := collector.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return TypeHistogram
	case WithHistograms:
		if slices.Contains(c.Histograms(), name) {
			return TypeHistogram
		}
	}
	if strings.HasSuffix(name, "_total") {
		return TypeCounter
	}
	return TypeGauge
}
