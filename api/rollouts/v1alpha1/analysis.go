package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kinds of analysis.
const (
	KindAnalysisTemplate        = "AnalysisTemplate"
	KindClusterAnalysisTemplate = "ClusterAnalysisTemplate"
	KindAnalysisRun             = "AnalysisRun"
)

// AnalysisRunResource is the resource of AnalysisRuns.
func AnalysisRunResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "analysisruns"}
}

// AnalysisTemplateResource is the resource of AnalysisTemplates.
func AnalysisTemplateResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "analysistemplates"}
}

// ClusterAnalysisTemplateResource is the resource of ClusterAnalysisTemplates.
func ClusterAnalysisTemplateResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "clusteranalysistemplates"}
}

// AnalysisTemplate has the metrics of analysis runs. A ClusterAnalysisTemplate has the
// same content without a namespace.
type AnalysisTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              AnalysisTemplateSpec `json:"spec"`
}

// AnalysisTemplateSpec is the content of a template.
type AnalysisTemplateSpec struct {
	Metrics              []Metric               `json:"metrics,omitempty"`
	Args                 []Argument             `json:"args,omitempty"`
	DryRun               []DryRun               `json:"dryRun,omitempty"`
	MeasurementRetention []MeasurementRetention `json:"measurementRetention,omitempty"`
	// Templates are further templates, whose metrics are added.
	Templates []AnalysisTemplateRef `json:"templates,omitempty"`
}

// AnalysisTemplateRef names a template.
type AnalysisTemplateRef struct {
	TemplateName string `json:"templateName"`
	ClusterScope *bool  `json:"clusterScope,omitempty"`
}

// IsClusterScope reports whether a ClusterAnalysisTemplate is named.
func (r AnalysisTemplateRef) IsClusterScope() bool { return r.ClusterScope != nil && *r.ClusterScope }

// DurationString is a duration as Go writes it, such as 5m30s.
type DurationString string

// Duration parses it.
func (d DurationString) Duration() (time.Duration, error) { return time.ParseDuration(string(d)) }

// Metric is one metric of a run: how it is measured, and when it is successful. The
// numbers can be texts, because arguments are substituted in them.
type Metric struct {
	Name                    string              `json:"name"`
	Interval                DurationString      `json:"interval,omitempty"`
	InitialDelay            DurationString      `json:"initialDelay,omitempty"`
	Count                   *intstr.IntOrString `json:"count,omitempty"`
	SuccessCondition        string              `json:"successCondition,omitempty"`
	FailureCondition        string              `json:"failureCondition,omitempty"`
	FailureLimit            *intstr.IntOrString `json:"failureLimit,omitempty"`
	InconclusiveLimit       *intstr.IntOrString `json:"inconclusiveLimit,omitempty"`
	ConsecutiveErrorLimit   *intstr.IntOrString `json:"consecutiveErrorLimit,omitempty"`
	ConsecutiveSuccessLimit *intstr.IntOrString `json:"consecutiveSuccessLimit,omitempty"`
	Provider                MetricProvider      `json:"provider"`
}

// EffectiveCount is how often the metric is measured. It is nil without an end.
func (m *Metric) EffectiveCount() *int32 {
	if m.Count != nil && m.Count.IntValue() != 0 {
		count := int32(m.Count.IntValue())
		return &count
	}
	if m.Interval == "" {
		one := int32(1)
		return &one
	}
	return nil
}

// DryRun names metrics, by a regular expression, whose result does not count.
type DryRun struct {
	MetricName string `json:"metricName"`
}

// MeasurementRetention bounds how many measurements of metrics are kept.
type MeasurementRetention struct {
	MetricName string `json:"metricName"`
	Limit      int32  `json:"limit"`
}

// TTLStrategy is when a completed run is deleted.
type TTLStrategy struct {
	SecondsAfterCompletion *int32 `json:"secondsAfterCompletion,omitempty"`
	SecondsAfterFailure    *int32 `json:"secondsAfterFailure,omitempty"`
	SecondsAfterSuccess    *int32 `json:"secondsAfterSuccess,omitempty"`
}

// Argument is a value that metrics use as {{args.NAME}}.
type Argument struct {
	Name      string     `json:"name"`
	Value     *string    `json:"value,omitempty"`
	ValueFrom *ValueFrom `json:"valueFrom,omitempty"`
}

// ValueFrom is the source of a value.
type ValueFrom struct {
	SecretKeyRef *SecretKeyRef `json:"secretKeyRef,omitempty"`
	FieldRef     *FieldRef     `json:"fieldRef,omitempty"`
}

// SecretKeyRef names a key of a Secret in the namespace of the run.
type SecretKeyRef struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// FieldRef names a field of the Rollout.
type FieldRef struct {
	FieldPath string `json:"fieldPath"`
}
