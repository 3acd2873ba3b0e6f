package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout is a workload with a strategy for its updates.
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   RolloutSpec   `json:"spec"`
	Status RolloutStatus `json:"status,omitzero"`
}

// RolloutSpec is the desired state.
type RolloutSpec struct {
	Replicas                *int32                 `json:"replicas,omitempty" minimum:"0" description:"Number of Pods. Defaults to 1."`
	Selector                *metav1.LabelSelector  `json:"selector,omitempty" description:"Selector of the Pods; it must match the labels of the template."`
	Template                corev1.PodTemplateSpec `json:"template,omitzero" description:"Template of the Pods."`
	WorkloadRef             *ObjectRef             `json:"workloadRef,omitempty" description:"Workload that has the template and the selector, in place of template and selector."`
	MinReadySeconds         int32                  `json:"minReadySeconds,omitempty" minimum:"0" description:"Seconds for which a Pod is ready before it is available."`
	RollbackWindow          *RollbackWindowSpec    `json:"rollbackWindow,omitempty" description:"Revisions that a rollback may go back to without the steps."`
	Strategy                RolloutStrategy        `json:"strategy,omitzero" description:"How Pods are replaced: canary or blueGreen."`
	RevisionHistoryLimit    *int32                 `json:"revisionHistoryLimit,omitempty" minimum:"0" description:"Number of old ReplicaSets that are kept. Defaults to 10."`
	Paused                  bool                   `json:"paused,omitempty" description:"Pauses the Rollout at its current step."`
	ProgressDeadlineSeconds *int32                 `json:"progressDeadlineSeconds,omitempty" minimum:"0" description:"Seconds without progress after which an update has failed. Defaults to 600."`
	ProgressDeadlineAbort   bool                   `json:"progressDeadlineAbort,omitempty" description:"Aborts an update that has exceeded progressDeadlineSeconds."`
	RestartAt               *metav1.Time           `json:"restartAt,omitempty" description:"Time at which all Pods are restarted."`
	Analysis                *AnalysisRunStrategy   `json:"analysis,omitempty" description:"Number of finished AnalysisRuns that are kept."`
}

// ObjectRef is a reference to a workload.
type ObjectRef struct {
	APIVersion string `json:"apiVersion,omitempty" description:"API version of the workload: apps/v1."`
	Kind       string `json:"kind,omitempty" description:"Kind of the workload: Deployment."`
	Name       string `json:"name,omitempty" description:"Name of the workload."`
	ScaleDown  string `json:"scaleDown,omitempty" enum:",never,onsuccess,progressively" description:"When the workload is scaled down: never, onsuccess or progressively."`
}

// The values of ObjectRef.ScaleDown.
const (
	ScaleDownNever         = "never"
	ScaleDownOnSuccess     = "onsuccess"
	ScaleDownProgressively = "progressively"
)

// RollbackWindowSpec bounds fast rollbacks.
type RollbackWindowSpec struct {
	Revisions int32 `json:"revisions,omitempty" description:"Number of revisions."`
}

// AnalysisRunStrategy has the limits of finished AnalysisRuns.
type AnalysisRunStrategy struct {
	SuccessfulRunHistoryLimit   *int32 `json:"successfulRunHistoryLimit,omitempty" description:"Number of successful AnalysisRuns that are kept. Defaults to 5."`
	UnsuccessfulRunHistoryLimit *int32 `json:"unsuccessfulRunHistoryLimit,omitempty" description:"Number of failed, erroneous and inconclusive AnalysisRuns that are kept. Defaults to 5."`
}

// RolloutStrategy is one of two strategies.
type RolloutStrategy struct {
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty" description:"Switches all traffic at once."`
	Canary    *CanaryStrategy    `json:"canary,omitempty" description:"Shifts traffic in steps."`
}

// BlueGreenStrategy switches a Service from one ReplicaSet to the next.
type BlueGreenStrategy struct {
	ActiveService               string               `json:"activeService" required:"true" description:"Service that serves the active ReplicaSet."`
	PreviewService              string               `json:"previewService,omitempty" description:"Service that serves the new ReplicaSet."`
	PreviewReplicaCount         *int32               `json:"previewReplicaCount,omitempty" description:"Number of Pods of the new ReplicaSet before it is promoted. Defaults to replicas."`
	AutoPromotionEnabled        *bool                `json:"autoPromotionEnabled,omitempty" description:"Promotes the new ReplicaSet without a person. Defaults to true."`
	AutoPromotionSeconds        int32                `json:"autoPromotionSeconds,omitempty" description:"Seconds between the new ReplicaSet being available and its promotion."`
	MaxUnavailable              *intstr.IntOrString  `json:"maxUnavailable,omitempty" description:"Pods that may be unavailable during a restart. Defaults to 25%."`
	ScaleDownDelaySeconds       *int32               `json:"scaleDownDelaySeconds,omitempty" description:"Seconds before the previous ReplicaSet is scaled down. Defaults to 30."`
	ScaleDownDelayRevisionLimit *int32               `json:"scaleDownDelayRevisionLimit,omitempty" description:"Number of old ReplicaSets that wait to be scaled down."`
	PrePromotionAnalysis        *RolloutAnalysis     `json:"prePromotionAnalysis,omitempty" description:"Analysis before the active Service is switched."`
	AntiAffinity                *Unsupported         `json:"antiAffinity,omitempty" refused:"write the rule into template.spec.affinity" description:"Not supported."`
	PostPromotionAnalysis       *RolloutAnalysis     `json:"postPromotionAnalysis,omitempty" description:"Analysis after the active Service was switched."`
	PreviewMetadata             *PodTemplateMetadata `json:"previewMetadata,omitempty" description:"Labels and annotations of Pods while they are the preview."`
	ActiveMetadata              *PodTemplateMetadata `json:"activeMetadata,omitempty" description:"Labels and annotations of Pods while they are active."`
	AbortScaleDownDelaySeconds  *int32               `json:"abortScaleDownDelaySeconds,omitempty" description:"Seconds before the new ReplicaSet is scaled down after an abort; 0 keeps it. Defaults to 30."`
}

// CanaryStrategy shifts traffic to the new ReplicaSet in steps.
type CanaryStrategy struct {
	CanaryService               string                     `json:"canaryService,omitempty" description:"Service that serves the new ReplicaSet."`
	StableService               string                     `json:"stableService,omitempty" description:"Service that serves the stable ReplicaSet."`
	Steps                       []CanaryStep               `json:"steps,omitempty" description:"Steps of an update, in order."`
	TrafficRouting              *RolloutTrafficRouting     `json:"trafficRouting,omitempty" description:"Router that splits the traffic. Without one, the number of Pods does."`
	MaxUnavailable              *intstr.IntOrString        `json:"maxUnavailable,omitempty" description:"Pods that may be unavailable during an update. Defaults to 25%."`
	MaxSurge                    *intstr.IntOrString        `json:"maxSurge,omitempty" description:"Pods above replicas during an update. Defaults to 25%."`
	Analysis                    *RolloutAnalysisBackground `json:"analysis,omitempty" description:"Analysis during all steps."`
	AntiAffinity                *Unsupported               `json:"antiAffinity,omitempty" refused:"write the rule into template.spec.affinity" description:"Not supported."`
	CanaryMetadata              *PodTemplateMetadata       `json:"canaryMetadata,omitempty" description:"Labels and annotations of Pods while they are the canary."`
	StableMetadata              *PodTemplateMetadata       `json:"stableMetadata,omitempty" description:"Labels and annotations of Pods while they are stable."`
	ScaleDownDelaySeconds       *int32                     `json:"scaleDownDelaySeconds,omitempty" description:"Seconds before the previous ReplicaSet is scaled down, with trafficRouting. Defaults to 30."`
	ScaleDownDelayRevisionLimit *int32                     `json:"scaleDownDelayRevisionLimit,omitempty" description:"Number of old ReplicaSets that wait to be scaled down."`
	AbortScaleDownDelaySeconds  *int32                     `json:"abortScaleDownDelaySeconds,omitempty" description:"Seconds before the canary is scaled down after an abort, with trafficRouting; 0 keeps it. Defaults to 30."`
	DynamicStableScale          bool                       `json:"dynamicStableScale,omitempty" description:"Scales the stable ReplicaSet down as its traffic shrinks, with trafficRouting."`
	PingPong                    *Unsupported               `json:"pingPong,omitempty" refused:"use stableService and canaryService" description:"Not supported."`
	MinPodsPerReplicaSet        *int32                     `json:"minPodsPerReplicaSet,omitempty" description:"Least Pods of a ReplicaSet that has any, with trafficRouting."`
	ReplicaProgressThreshold    *ReplicaProgressThreshold  `json:"replicaProgressThreshold,omitempty" description:"Available Pods that a step needs. Defaults to all."`
}

// ReplicaProgressThreshold is a part of the Pods of a step.
type ReplicaProgressThreshold struct {
	Type  string `json:"type" required:"true" enum:"Percent,Pods" description:"Percent or Pods."`
	Value int32  `json:"value" required:"true" description:"Percentage or number of Pods."`
}

// The values of ReplicaProgressThreshold.Type.
const (
	ProgressPercent = "Percent"
	ProgressPods    = "Pods"
)

// PodTemplateMetadata has metadata of Pods in a role.
type PodTemplateMetadata struct {
	Labels      map[string]string `json:"labels,omitempty" description:"Labels."`
	Annotations map[string]string `json:"annotations,omitempty" description:"Annotations."`
}
