package analysis

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/secret"
)

const (
	// keptMeasurements is how many measurements of a metric a status lists.
	keptMeasurements = 10
	// maxText bounds the texts of a measurement: responses become a part of the status.
	maxText = 4 << 10
	// parallel is how many measurements of a run are taken at a time.
	parallel = 4
)

// secretValues returns the values of arguments, with those of Secrets, and what removes
// the latter from texts.
func (p *providers) secretValues(ctx context.Context, run *v1alpha1.AnalysisRun) (values, redactor, error) {
	known, err := plainValues(run.Spec.Args)
	if err != nil {
		return nil, nil, err
	}
	var hidden redactor
	for _, argument := range run.Spec.Args {
		ref := fromSecret(argument)
		if ref == nil {
			continue
		}
		found, err := p.cluster.Client.CoreV1().Secrets(run.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, err
		}
		content, has := found.Data[ref.Key]
		if !has {
			return nil, nil, fmt.Errorf("key '%s' does not exist in secret '%s'", ref.Key, ref.Name)
		}
		hidden = append(hidden, secret.New(string(content)))
		known[argument.Name] = string(content)
	}
	return known, hidden, nil
}

// take takes the measurements of tasks and adds them to the results of the run. An
// error means that the arguments cannot be read.
func (p *providers) take(ctx context.Context, run *v1alpha1.AnalysisRun, tasks []task, dry map[string]bool) error {
	known, hidden, err := p.secretValues(ctx, run)
	if err != nil {
		return err
	}
	ending := terminating(run)
	measured := make([]v1alpha1.Measurement, len(tasks))
	metrics := make([]*v1alpha1.Metric, len(tasks))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, one := range tasks {
		if metrics[i], err = known.substitute(&run.Spec.Metrics[one.index]); err != nil {
			return err
		}
	}
	for i, one := range tasks {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			measured[i] = p.one(ctx, run, metrics[i], one.unfinished, ending)
		})
	}
	running.Wait()
	for i, one := range tasks {
		result := resultOf(&run.Status, metrics[i].Name)
		if result == nil {
			run.Status.MetricResults = append(run.Status.MetricResults, newResult(metrics[i], dry[metrics[i].Name], hidden))
			result = &run.Status.MetricResults[len(run.Status.MetricResults)-1]
		}
		p.record(result, one, hidden.clean(measured[i]))
	}
	return nil
}

// newResult is the result of a metric without measurements.
func newResult(metric *v1alpha1.Metric, dry bool, hidden redactor) v1alpha1.MetricResult {
	result := v1alpha1.MetricResult{Name: metric.Name, Phase: v1alpha1.AnalysisPhaseRunning, DryRun: dry}
	if query := metric.Provider.Prometheus; query != nil && query.Query != "" && checkPrometheus(query) == nil {
		result.Metadata = map[string]string{resolvedQuery: shorten(hidden.redact(query.Query))}
	}
	return result
}

// one takes, resumes or terminates a measurement.
func (p *providers) one(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, unfinished *v1alpha1.Measurement, ending bool) v1alpha1.Measurement {
	source, err := p.of(metric)
	if unfinished == nil {
		if err != nil {
			return p.failed(p.begun(), err)
		}
		return source.measure(ctx, run, metric)
	}
	if err != nil {
		return p.failed(*unfinished, err)
	}
	able, ok := source.(lasting)
	if !ok {
		return p.failed(*unfinished, fmt.Errorf("a measurement of the metric %s cannot be resumed", metric.Name))
	}
	if !ending {
		return able.resume(ctx, run, metric, *unfinished)
	}
	ended := able.terminate(ctx, run, metric, *unfinished)
	if ended.Phase == v1alpha1.AnalysisPhaseSuccessful || ended.Phase == v1alpha1.AnalysisPhaseInconclusive {
		ended.Message = "Metric Terminated"
	}
	return ended
}

// clean removes the values of Secrets from a measurement, and bounds its texts.
func (r redactor) clean(measurement v1alpha1.Measurement) v1alpha1.Measurement {
	measurement.Message = shorten(r.redact(measurement.Message))
	measurement.Value = shorten(r.redact(measurement.Value))
	for key, value := range measurement.Metadata {
		measurement.Metadata[key] = shorten(r.redact(value))
	}
	return measurement
}

// shorten truncates a text, never within a character.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// record adds a measurement to the result of its metric.
func (p *providers) record(result *v1alpha1.MetricResult, one task, measurement v1alpha1.Measurement) {
	if measurement.Phase.Completed() {
		countMeasurement(result, measurement.Phase)
		if measurement.FinishedAt == nil {
			measurement.FinishedAt = stamp(p.now())
		}
	}
	if one.unfinished == nil {
		result.Measurements = append(result.Measurements, measurement)
	} else {
		result.Measurements[len(result.Measurements)-1] = measurement
	}
}

// countMeasurement adds a completed measurement to the counts of a metric. Errors are no
// measurements: they do not count against count.
func countMeasurement(result *v1alpha1.MetricResult, phase v1alpha1.AnalysisPhase) {
	if phase == v1alpha1.AnalysisPhaseError {
		result.Error++
		result.ConsecutiveError++
		result.ConsecutiveSuccess = 0
		return
	}
	result.Count++
	result.ConsecutiveError = 0
	switch phase {
	case v1alpha1.AnalysisPhaseSuccessful:
		result.Successful++
		result.ConsecutiveSuccess++
		return
	case v1alpha1.AnalysisPhaseFailed:
		result.Failed++
	case v1alpha1.AnalysisPhaseInconclusive:
		result.Inconclusive++
	}
	result.ConsecutiveSuccess = 0
}

// trim drops the oldest measurements of a status, with the objects that they have.
func (p *providers) trim(ctx context.Context, run *v1alpha1.AnalysisRun, metrics []v1alpha1.Metric, kept map[string]int) error {
	for i := range metrics {
		result := resultOf(&run.Status, metrics[i].Name)
		if result == nil {
			continue
		}
		limit := keptMeasurements
		if wanted := kept[result.Name]; wanted > 0 {
			limit = min(wanted, maxKept)
		}
		over := len(result.Measurements) - limit
		if over <= 0 {
			continue
		}
		result.Measurements = result.Measurements[over:]
		if source, err := p.of(&metrics[i]); err == nil {
			if able, ok := source.(pruner); ok {
				if err := able.prune(ctx, run, result.Name, limit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// maxKept bounds measurementRetention: a status is part of an object of at most 1.5 MB.
const maxKept = 1000
