package analysis

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// defaultErrorLimit is how many errors in a row a metric may have.
const defaultErrorLimit = 4

// severity orders the phases of completed metrics.
var severity = map[v1alpha1.AnalysisPhase]int{
	v1alpha1.AnalysisPhaseSuccessful: 1, v1alpha1.AnalysisPhaseInconclusive: 2, v1alpha1.AnalysisPhaseError: 3, v1alpha1.AnalysisPhaseFailed: 4,
}

// assess computes the phase of a run from the results of its metrics: running while a
// metric is, and then the worst of them. It sets the phases of the results, the
// summaries and the times. It returns the metrics that completed.
func assess(run *v1alpha1.AnalysisRun, metrics []v1alpha1.Metric, dry map[string]bool, now time.Time) []*v1alpha1.MetricResult {
	status := &run.Status
	if status.StartedAt == nil {
		status.StartedAt = stamp(now)
	}
	a := assessment{run: run, ending: terminating(run), dry: dry}
	if run.Spec.Terminate {
		a.message = "Run Terminated"
	}
	for i := range metrics {
		a.add(&metrics[i])
	}
	status.RunSummary, status.DryRunSummary = a.summary, &a.drySummary
	phase, message := a.outcome()
	if phase != status.Phase {
		status.Phase, status.Message = phase, message
		if phase.Completed() && status.CompletedAt == nil {
			status.CompletedAt = stamp(now)
		}
	}
	return a.completed
}

// assessment collects the results of the metrics of a run.
type assessment struct {
	run    *v1alpha1.AnalysisRun
	ending bool
	dry    map[string]bool
	// worst and message are those of the worst metric.
	worst   v1alpha1.AnalysisPhase
	message string
	// open is set while a metric is not completed.
	open                bool
	summary, drySummary v1alpha1.RunSummary
	completed           []*v1alpha1.MetricResult
}

// add assesses one metric.
func (a *assessment) add(metric *v1alpha1.Metric) {
	dry := a.dry[metric.Name]
	summary := &a.summary
	if dry {
		summary = &a.drySummary
	}
	summary.Count++
	result := resultOf(&a.run.Status, metric.Name)
	if result == nil {
		a.open = true // it has an initial delay
		return
	}
	phase := assessMetric(metric, result, a.ending)
	if phase != result.Phase {
		if last := lastOf(result); last != nil {
			result.Message = last.Message
		}
		result.Phase = phase
		if phase.Completed() {
			a.completed = append(a.completed, result)
		}
	}
	if !phase.Completed() {
		a.open = true
		return
	}
	exceeded, reason := exceededLimit(metric, result)
	count(summary, exceeded)
	if dry {
		// The result of a dry run does not count.
		if a.worst == "" {
			a.worst = v1alpha1.AnalysisPhaseSuccessful
		}
		if reason != "" {
			result.Message = fmt.Sprintf("Metric assessed %s due to %s", phase, reason)
		}
		return
	}
	if severity[phase] <= severity[a.worst] {
		return
	}
	a.worst = phase
	if reason != "" {
		a.message = fmt.Sprintf("Metric \"%s\" assessed %s due to %s", metric.Name, phase, reason)
		if result.Message != "" {
			a.message += fmt.Sprintf(": \"Error Message: %s\"", result.Message)
		}
	}
}

// outcome returns the phase of the run.
func (a *assessment) outcome() (v1alpha1.AnalysisPhase, string) {
	message := strings.TrimSpace(a.message)
	switch {
	case a.ending && a.worst == "":
		// Nothing was measured until it was terminated.
		return v1alpha1.AnalysisPhaseSuccessful, message
	case a.ending:
		return a.worst, message
	case a.open || a.worst == "":
		return v1alpha1.AnalysisPhaseRunning, ""
	}
	return a.worst, message
}

// count adds a metric to a summary. One that exceeded no limit is successful.
func count(summary *v1alpha1.RunSummary, phase v1alpha1.AnalysisPhase) {
	switch phase {
	case v1alpha1.AnalysisPhaseError:
		summary.Error++
	case v1alpha1.AnalysisPhaseFailed:
		summary.Failed++
	case v1alpha1.AnalysisPhaseInconclusive:
		summary.Inconclusive++
	default:
		summary.Successful++
	}
}

// assessMetric returns the phase of a metric.
func assessMetric(metric *v1alpha1.Metric, result *v1alpha1.MetricResult, ending bool) v1alpha1.AnalysisPhase {
	if result.Phase.Completed() {
		return result.Phase
	}
	last := lastOf(result)
	switch {
	case last == nil && ending:
		return v1alpha1.AnalysisPhaseSuccessful
	case last == nil:
		return v1alpha1.AnalysisPhasePending
	case !last.Phase.Completed():
		return v1alpha1.AnalysisPhaseRunning
	}
	if exceeded, _ := exceededLimit(metric, result); exceeded != "" {
		return exceeded
	}
	wanted := limitOf(metric.ConsecutiveSuccessLimit, 0)
	if wanted > 0 && result.ConsecutiveSuccess >= wanted {
		return v1alpha1.AnalysisPhaseSuccessful
	}
	if count := metric.EffectiveCount(); count != nil && result.Count >= *count {
		switch {
		case wanted > 0 && limitOf(metric.FailureLimit, 0) >= 0:
			// Neither enough successes in a row nor too many failures.
			return v1alpha1.AnalysisPhaseInconclusive
		case wanted > 0:
			return v1alpha1.AnalysisPhaseFailed
		}
		return v1alpha1.AnalysisPhaseSuccessful
	}
	if ending {
		return v1alpha1.AnalysisPhaseSuccessful
	}
	return v1alpha1.AnalysisPhaseRunning
}

// exceededLimit returns the phase of a metric that exceeded a limit, with the limit. An
// error precedes an inconclusive result, and that a failure.
func exceededLimit(metric *v1alpha1.Metric, result *v1alpha1.MetricResult) (v1alpha1.AnalysisPhase, string) {
	if limit := limitOf(metric.ConsecutiveErrorLimit, defaultErrorLimit); result.ConsecutiveError > limit {
		return v1alpha1.AnalysisPhaseError, fmt.Sprintf("consecutiveErrors (%d) > consecutiveErrorLimit (%d)", result.ConsecutiveError, limit)
	}
	if limit := limitOf(metric.InconclusiveLimit, 0); result.Inconclusive > limit {
		return v1alpha1.AnalysisPhaseInconclusive, fmt.Sprintf("inconclusive (%d) > inconclusiveLimit (%d)", result.Inconclusive, limit)
	}
	// A negative limit is none.
	if limit := limitOf(metric.FailureLimit, 0); limit >= 0 && result.Failed > limit {
		return v1alpha1.AnalysisPhaseFailed, fmt.Sprintf("failed (%d) > failureLimit (%d)", result.Failed, limit)
	}
	return "", ""
}

// stamp is a time as a status has it.
func stamp(at time.Time) *metav1.Time {
	time := metav1.NewTime(at)
	return &time
}
