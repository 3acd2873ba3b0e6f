package analysis

import (
	"time"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

const (
	// errorRetry is the interval after a measurement with an error.
	errorRetry = 10 * time.Second
	// minInterval is the shortest interval between measurements, so that one run
	// cannot occupy a worker.
	minInterval = time.Second
)

// task is a measurement that is to be taken, or resumed.
type task struct {
	// index is that of the metric.
	index int
	// unfinished is the measurement to resume; nil for a new one.
	unfinished *v1alpha1.Measurement
}

// resultOf returns the result of a metric; nil for none.
func resultOf(status *v1alpha1.AnalysisRunStatus, name string) *v1alpha1.MetricResult {
	for i := range status.MetricResults {
		if status.MetricResults[i].Name == name {
			return &status.MetricResults[i]
		}
	}
	return nil
}

// lastOf returns the last measurement of a metric; nil for none.
func lastOf(result *v1alpha1.MetricResult) *v1alpha1.Measurement {
	if result == nil || len(result.Measurements) == 0 {
		return nil
	}
	return &result.Measurements[len(result.Measurements)-1]
}

// terminating reports whether no more measurements are taken: by request, or because a
// metric decided the run.
func terminating(run *v1alpha1.AnalysisRun) bool {
	if run.Spec.Terminate {
		return true
	}
	for i := range run.Status.MetricResults {
		result := &run.Status.MetricResults[i]
		if !result.DryRun && result.Phase.Completed() && result.Phase != v1alpha1.AnalysisPhaseSuccessful {
			return true
		}
	}
	return false
}

// dueTasks returns the measurements to take now. A run that terminates has only those
// that are not finished.
func dueTasks(run *v1alpha1.AnalysisRun, metrics []v1alpha1.Metric, now time.Time) []task {
	var tasks []task
	ending := terminating(run)
	for i := range metrics {
		result := resultOf(&run.Status, metrics[i].Name)
		if result != nil && result.Phase.Completed() {
			continue
		}
		last := lastOf(result)
		if last != nil && last.FinishedAt == nil {
			if ending || last.ResumeAt == nil || !last.ResumeAt.After(now) {
				tasks = append(tasks, task{i, last})
			}
			continue
		}
		if ending {
			continue
		}
		// Not equal: the stored times have no fractions of seconds, and a
		// measurement is never early.
		if at, due := nextMeasurement(run, &metrics[i], result); due && at.Before(now) {
			tasks = append(tasks, task{index: i})
		}
	}
	return tasks
}

// nextMeasurement returns when a metric without an unfinished measurement is measured
// next; false for never, or not before the run has started.
func nextMeasurement(run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric, result *v1alpha1.MetricResult) (time.Time, bool) {
	last := lastOf(result)
	if last == nil {
		if metric.InitialDelay == "" {
			return time.Time{}, true
		}
		delay, err := metric.InitialDelay.Duration()
		if err != nil || run.Status.StartedAt == nil {
			return time.Time{}, false
		}
		return run.Status.StartedAt.Add(delay), true
	}
	if count := metric.EffectiveCount(); count != nil && result.Count >= *count {
		return time.Time{}, false
	}
	interval := errorRetry
	if last.Phase != v1alpha1.AnalysisPhaseError && metric.Interval != "" {
		parsed, err := metric.Interval.Duration()
		if err != nil {
			return time.Time{}, false
		}
		interval = max(parsed, minInterval)
	}
	return last.FinishedAt.Add(interval), true
}

// nextTime returns when a run has to be looked at again; false for not before it
// changes.
func nextTime(run *v1alpha1.AnalysisRun, metrics []v1alpha1.Metric) (time.Time, bool) {
	if run.Status.Phase.Completed() {
		return expiry(run)
	}
	var next time.Time
	for i := range metrics {
		result := resultOf(&run.Status, metrics[i].Name)
		if result != nil && result.Phase.Completed() {
			continue
		}
		var at time.Time
		if last := lastOf(result); last != nil && last.FinishedAt == nil {
			if last.ResumeAt == nil {
				continue
			}
			at = last.ResumeAt.Time
		} else {
			var due bool
			if at, due = nextMeasurement(run, &metrics[i], result); !due {
				continue
			}
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// expiry returns when a completed run is deleted; false for never.
func expiry(run *v1alpha1.AnalysisRun) (time.Time, bool) {
	ttl := run.Spec.TTLStrategy
	if ttl == nil || run.Status.CompletedAt == nil || !run.Status.Phase.Completed() {
		return time.Time{}, false
	}
	seconds := ttl.SecondsAfterCompletion
	switch {
	case run.Status.Phase == v1alpha1.AnalysisPhaseSuccessful && ttl.SecondsAfterSuccess != nil:
		seconds = ttl.SecondsAfterSuccess
	case run.Status.Phase == v1alpha1.AnalysisPhaseFailed && ttl.SecondsAfterFailure != nil:
		seconds = ttl.SecondsAfterFailure
	}
	if seconds == nil {
		return time.Time{}, false
	}
	return run.Status.CompletedAt.Add(time.Duration(*seconds) * time.Second), true
}
