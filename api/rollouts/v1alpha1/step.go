package v1alpha1

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// CanaryStep is one step of a canary; one of its fields is set.
type CanaryStep struct {
	SetWeight      *int32           `json:"setWeight,omitempty" description:"Weight of the canary."`
	Pause          *RolloutPause    `json:"pause,omitempty" description:"Pauses the Rollout."`
	Experiment     *Unsupported     `json:"experiment,omitempty" refused:"experiments are not run: use an analysis step, or a preview by a header" description:"Not supported."`
	Analysis       *RolloutAnalysis `json:"analysis,omitempty" description:"Analysis that the step waits for."`
	SetCanaryScale *SetCanaryScale  `json:"setCanaryScale,omitempty" description:"Number of Pods of the canary, apart from its weight."`
	SetHeaderRoute *SetHeaderRoute  `json:"setHeaderRoute,omitempty" description:"Leads requests with a header to the canary."`
	SetMirrorRoute *SetMirrorRoute  `json:"setMirrorRoute,omitempty" description:"Copies requests to the canary."`
	Plugin         *Unsupported     `json:"plugin,omitempty" refused:"plugins of steps are not run: use an analysis step with a Job" description:"Not supported."`
}

// RolloutPause is a pause of an update.
type RolloutPause struct {
	Duration *intstr.IntOrString `json:"duration,omitempty" description:"Seconds, or a text such as 5m. Without one, a person ends the pause."`
}

// Seconds returns the duration in seconds: 0 without one, and -1 if it cannot be
// read.
func (p RolloutPause) Seconds() int32 {
	if p.Duration == nil {
		return 0
	}
	if p.Duration.Type == intstr.Int {
		return p.Duration.IntVal
	}
	if seconds, err := strconv.ParseInt(p.Duration.StrVal, 10, 32); err == nil {
		return int32(seconds)
	}
	if duration, err := time.ParseDuration(p.Duration.StrVal); err == nil {
		return int32(duration.Seconds())
	}
	return -1
}

// SetCanaryScale is a number of Pods; one of its fields is set.
type SetCanaryScale struct {
	Weight             *int32 `json:"weight,omitempty" description:"Percentage of the Pods."`
	Replicas           *int32 `json:"replicas,omitempty" description:"Number of Pods."`
	MatchTrafficWeight bool   `json:"matchTrafficWeight,omitempty" description:"Follows the weight again."`
}

// RolloutAnalysisBackground is an analysis during the steps.
type RolloutAnalysisBackground struct {
	RolloutAnalysis `json:",inline"`
	StartingStep    *int32 `json:"startingStep,omitempty" description:"Index of the step at which it starts. Defaults to 0."`
}

// RolloutAnalysis makes an AnalysisRun.
type RolloutAnalysis struct {
	Templates            []AnalysisTemplateRef  `json:"templates,omitempty" description:"Templates of the AnalysisRun."`
	Args                 []AnalysisRunArgument  `json:"args,omitempty" description:"Arguments of the templates."`
	DryRun               []DryRun               `json:"dryRun,omitempty" description:"Metrics that decide nothing."`
	MeasurementRetention []MeasurementRetention `json:"measurementRetention,omitempty" description:"Measurements that are kept, by metric."`
	AnalysisRunMetadata  *AnalysisRunMetadata   `json:"analysisRunMetadata,omitempty" description:"Labels and annotations of the AnalysisRun."`
}

// AnalysisRunArgument is an argument of a template.
type AnalysisRunArgument struct {
	Name      string             `json:"name" required:"true" description:"Name of the argument."`
	Value     string             `json:"value,omitempty" description:"Value."`
	ValueFrom *ArgumentValueFrom `json:"valueFrom,omitempty" description:"Source of the value."`
}

// ArgumentValueFrom is a value from an object.
type ArgumentValueFrom struct {
	PodTemplateHashValue string    `json:"podTemplateHashValue,omitempty" enum:",Stable,Latest" description:"Hash of the stable or the new ReplicaSet: Stable or Latest."`
	FieldRef             *FieldRef `json:"fieldRef,omitempty" description:"Field of the Rollout."`
}

// The values of ArgumentValueFrom.PodTemplateHashValue.
const (
	HashStable = "Stable"
	HashLatest = "Latest"
)

// AnalysisRunMetadata is metadata of an AnalysisRun.
type AnalysisRunMetadata struct {
	Labels      map[string]string `json:"labels,omitempty" description:"Labels."`
	Annotations map[string]string `json:"annotations,omitempty" description:"Annotations."`
}
