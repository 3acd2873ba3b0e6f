package analysis

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// maxMetrics bounds the metrics of one run.
const maxMetrics = 100

// checkMetrics refuses metrics that contradict themselves, with the words of Argo
// Rollouts.
func checkMetrics(metrics []v1alpha1.Metric) error {
	if len(metrics) == 0 {
		return errors.New("no metrics specified")
	}
	if len(metrics) > maxMetrics {
		return fmt.Errorf("more than %d metrics: use several runs", maxMetrics)
	}
	names := map[string]bool{}
	for i := range metrics {
		metric := &metrics[i]
		if names[metric.Name] {
			return fmt.Errorf("metrics[%d]: duplicate name '%s'", i, metric.Name)
		}
		names[metric.Name] = true
		if err := checkLimits(metric); err != nil {
			return fmt.Errorf("metrics[%d]: %w", i, err)
		}
		if err := checkTimes(metric); err != nil {
			return fmt.Errorf("metrics[%d]: %w", i, err)
		}
		switch count := len(providersOf(&metric.Provider)); {
		case count == 0:
			return fmt.Errorf("metrics[%d]: no provider specified", i)
		case count > 1:
			return fmt.Errorf("metrics[%d]: multiple providers specified", i)
		}
	}
	return nil
}

// limitOf returns a number of a metric, or what it is without one.
func limitOf(number *intstr.IntOrString, otherwise int32) int32 {
	if number == nil {
		return otherwise
	}
	return int32(number.IntValue())
}

// checkLimits checks the counts of a metric.
func checkLimits(metric *v1alpha1.Metric) error {
	count, failure := limitOf(metric.Count, 0), limitOf(metric.FailureLimit, 0)
	success, inconclusive := limitOf(metric.ConsecutiveSuccessLimit, 0), limitOf(metric.InconclusiveLimit, 0)
	switch {
	case success < 0:
		return errors.New("consecutiveSuccessLimit must be >= 0")
	case failure < -1:
		return errors.New("failureLimit must be >= 0, or -1 to be disabled")
	case success == 0 && failure == -1:
		return errors.New("failureLimit and consecutiveSuccessLimit cannot both be disabled")
	case inconclusive < 0:
		return errors.New("inconclusiveLimit must be >= 0")
	case limitOf(metric.ConsecutiveErrorLimit, 0) < 0:
		return errors.New("consecutiveErrorLimit must be >= 0")
	case count <= 0:
		return nil
	case failure >= 0 && count < failure+success:
		return fmt.Errorf("count (%d) must be >= failureLimit + consecutiveSuccessLimit (%d + %d) if both >= 0", count, failure, success)
	case failure < 0 && count < success:
		return errors.New("count must be >= consecutiveSuccessLimit")
	case count < inconclusive:
		return errors.New("count must be >= inconclusiveLimit")
	}
	return nil
}

// checkTimes checks the durations of a metric.
func checkTimes(metric *v1alpha1.Metric) error {
	if limitOf(metric.Count, 0) > 1 && metric.Interval == "" {
		return errors.New("interval must be specified when count > 1")
	}
	if metric.Interval != "" {
		if _, err := metric.Interval.Duration(); err != nil {
			return fmt.Errorf("invalid interval string: %w", err)
		}
	}
	if metric.InitialDelay != "" {
		if _, err := metric.InitialDelay.Duration(); err != nil {
			return fmt.Errorf("invalid startDelay string: %w", err)
		}
	}
	return nil
}

// dryRuns returns the metrics whose result does not count.
func dryRuns(rules []v1alpha1.DryRun, metrics []v1alpha1.Metric) (map[string]bool, error) {
	dry := map[string]bool{}
	for i, rule := range rules {
		names := matching(rule.MetricName, metrics)
		if len(names) == 0 {
			return nil, fmt.Errorf("dryRun[%d]: Rule didn't match any metric name", i)
		}
		for _, name := range names {
			dry[name] = true
		}
	}
	return dry, nil
}

// retentions returns how many measurements of metrics are kept, where that is not the
// default.
func retentions(rules []v1alpha1.MeasurementRetention, metrics []v1alpha1.Metric) (map[string]int, error) {
	kept := map[string]int{}
	for i, rule := range rules {
		names := matching(rule.MetricName, metrics)
		if len(names) == 0 {
			return nil, fmt.Errorf("measurementRetention[%d]: Rule didn't match any metric name", i)
		}
		for _, name := range names {
			kept[name] = int(rule.Limit)
		}
	}
	return kept, nil
}

// matching returns the metrics whose names match an expression. A broken one matches
// none.
func matching(expression string, metrics []v1alpha1.Metric) []string {
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil
	}
	var names []string
	for i := range metrics {
		if compiled.MatchString(metrics[i].Name) {
			names = append(names, metrics[i].Name)
		}
	}
	return names
}
