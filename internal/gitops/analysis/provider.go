package analysis

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
	"slipway.dev/slipway/internal/kube"
)

// provider takes the measurements of one kind of metric. The metric has its arguments.
type provider interface {
	// measure takes a measurement. One that is not completed is resumed.
	measure(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) v1alpha1.Measurement
}

// lasting is a provider whose measurements take longer than a request.
type lasting interface {
	resume(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement
	// terminate ends a measurement early.
	terminate(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement
}

// pruner is a provider with objects that outlive measurements.
type pruner interface {
	prune(ctx context.Context, run *v1alpha1.AnalysisRun, metric string, keep int) error
}

// Evaluator computes measurements of responses. A render.Renderer does that in a worker.
type Evaluator interface {
	Evaluate(ctx context.Context, namespace string, request evaluate.Request) (evaluate.Result, error)
}

// providers makes the provider of a metric.
type providers struct {
	cluster   *kube.Cluster
	evaluator Evaluator
	clients   *clients
	edges     EdgeReports
	windows   *windows
	now       func() time.Time
}

// providersOf returns the names of the providers that a metric has.
func providersOf(p *v1alpha1.MetricProvider) []string {
	var names []string
	add := func(name string, present bool) {
		if present {
			names = append(names, name)
		}
	}
	add("prometheus", p.Prometheus != nil)
	add("job", p.Job != nil)
	add("web", p.Web != nil)
	for _, one := range []struct {
		name    string
		content json.RawMessage
	}{
		{"kayenta", p.Kayenta},
		{"datadog", p.Datadog},
		{"wavefront", p.Wavefront},
		{"newRelic", p.NewRelic},
		{"cloudWatch", p.CloudWatch},
		{"graphite", p.Graphite},
		{"influxdb", p.Influxdb},
		{"skywalking", p.SkyWalking},
	} {
		add(one.name, len(one.content) > 0 && string(one.content) != "null")
	}
	for _, plugin := range slices.Sorted(maps.Keys(p.Plugin)) {
		add("plugin "+plugin, true)
	}
	return names
}

// of returns the provider of a checked metric.
func (p *providers) of(metric *v1alpha1.Metric) (provider, error) {
	switch {
	case metric.Provider.Prometheus != nil:
		return &prometheusProvider{p}, nil
	case metric.Provider.Web != nil:
		return &webProvider{p}, nil
	case metric.Provider.Job != nil:
		return &jobProvider{p}, nil
	case metric.Provider.Plugin[v1alpha1.EdgePlugin] != nil:
		return &edgeProvider{p}, nil
	}
	return nil, refuseProvider(&metric.Provider)
}

// refuseProvider is the error of a provider that is not supported; nil for others.
func refuseProvider(p *v1alpha1.MetricProvider) error {
	for _, name := range providersOf(p) {
		switch name {
		case "prometheus", "job", "web", "plugin " + v1alpha1.EdgePlugin:
		default:
			return fmt.Errorf("the metric provider %s is not supported: use prometheus, web, job, or the plugin %s for the edge's own counts", name, v1alpha1.EdgePlugin)
		}
	}
	return nil
}

// evaluated completes a measurement by evaluating a response.
func (p *providers) evaluated(ctx context.Context, run *v1alpha1.AnalysisRun, measurement v1alpha1.Measurement, request evaluate.Request) v1alpha1.Measurement {
	result, err := p.evaluator.Evaluate(ctx, run.Namespace, request)
	if err != nil {
		return p.failed(measurement, err)
	}
	measurement.Phase, measurement.Value, measurement.Message = result.Phase, result.Value, result.Message
	if len(result.Warnings) > 0 {
		measurement.Metadata = map[string]string{"warnings": quoteAll(result.Warnings)}
	}
	measurement.FinishedAt = stamp(p.now())
	return measurement
}

// begun is a measurement that starts now.
func (p *providers) begun() v1alpha1.Measurement {
	return v1alpha1.Measurement{StartedAt: stamp(p.now())}
}

// failed completes a measurement with an error.
func (p *providers) failed(measurement v1alpha1.Measurement, err error) v1alpha1.Measurement {
	measurement.Phase, measurement.Message = v1alpha1.AnalysisPhaseError, err.Error()
	measurement.FinishedAt = stamp(p.now())
	return measurement
}

// quoteAll lists texts in quotes.
func quoteAll(texts []string) string {
	all := ""
	for i, text := range texts {
		if i > 0 {
			all += ", "
		}
		all += `"` + text + `"`
	}
	return all
}
