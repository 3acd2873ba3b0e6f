package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnalysisRun is one analysis with its results.
type AnalysisRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              AnalysisRunSpec   `json:"spec"`
	Status            AnalysisRunStatus `json:"status,omitzero"`
}

// AnalysisRunSpec is what is measured.
type AnalysisRunSpec struct {
	Metrics []Metric   `json:"metrics"`
	Args    []Argument `json:"args,omitempty"`
	// Terminate ends the run. Its result is what was measured until then.
	Terminate            bool                   `json:"terminate,omitempty"`
	DryRun               []DryRun               `json:"dryRun,omitempty"`
	MeasurementRetention []MeasurementRetention `json:"measurementRetention,omitempty"`
	TTLStrategy          *TTLStrategy           `json:"ttlStrategy,omitempty"`
}

// AnalysisPhase is the state of a run, a metric or a measurement.
type AnalysisPhase string

// The phases.
const (
	AnalysisPhasePending      AnalysisPhase = "Pending"
	AnalysisPhaseRunning      AnalysisPhase = "Running"
	AnalysisPhaseSuccessful   AnalysisPhase = "Successful"
	AnalysisPhaseFailed       AnalysisPhase = "Failed"
	AnalysisPhaseError        AnalysisPhase = "Error"
	AnalysisPhaseInconclusive AnalysisPhase = "Inconclusive"
)

// Completed reports whether the phase is final.
func (p AnalysisPhase) Completed() bool {
	switch p {
	case AnalysisPhaseSuccessful, AnalysisPhaseFailed, AnalysisPhaseError, AnalysisPhaseInconclusive:
		return true
	}
	return false
}

// AnalysisRunStatus is the result of a run.
type AnalysisRunStatus struct {
	Phase         AnalysisPhase  `json:"phase"`
	Message       string         `json:"message,omitempty"`
	MetricResults []MetricResult `json:"metricResults,omitempty"`
	StartedAt     *metav1.Time   `json:"startedAt,omitempty"`
	RunSummary    RunSummary     `json:"runSummary,omitzero"`
	DryRunSummary *RunSummary    `json:"dryRunSummary,omitempty"`
	CompletedAt   *metav1.Time   `json:"completedAt,omitempty"`
}

// RunSummary counts metrics by their result.
type RunSummary struct {
	Count        int32 `json:"count,omitempty"`
	Successful   int32 `json:"successful,omitempty"`
	Failed       int32 `json:"failed,omitempty"`
	Inconclusive int32 `json:"inconclusive,omitempty"`
	Error        int32 `json:"error,omitempty"`
}

// MetricResult is the result of one metric. The counts include measurements that are
// no longer listed.
type MetricResult struct {
	Name               string            `json:"name"`
	Phase              AnalysisPhase     `json:"phase"`
	Measurements       []Measurement     `json:"measurements,omitempty"`
	Message            string            `json:"message,omitempty"`
	Count              int32             `json:"count,omitempty"`
	Successful         int32             `json:"successful,omitempty"`
	Failed             int32             `json:"failed,omitempty"`
	Inconclusive       int32             `json:"inconclusive,omitempty"`
	Error              int32             `json:"error,omitempty"`
	ConsecutiveError   int32             `json:"consecutiveError,omitempty"`
	DryRun             bool              `json:"dryRun,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	ConsecutiveSuccess int32             `json:"consecutiveSuccess,omitempty"`
}

// Measurement is one measurement. One that is not finished is resumed at ResumeAt.
type Measurement struct {
	Phase      AnalysisPhase     `json:"phase"`
	Message    string            `json:"message,omitempty"`
	StartedAt  *metav1.Time      `json:"startedAt,omitempty"`
	FinishedAt *metav1.Time      `json:"finishedAt,omitempty"`
	Value      string            `json:"value,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	ResumeAt   *metav1.Time      `json:"resumeAt,omitempty"`
}
