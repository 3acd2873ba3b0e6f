package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutStatus is the observed state. Clients write some of its fields: abort,
// pauseConditions, promoteFull, controllerPause and currentStepIndex.
type RolloutStatus struct {
	Abort                      bool               `json:"abort,omitempty" description:"The update is aborted, which clients request."`
	PauseConditions            []PauseCondition   `json:"pauseConditions,omitempty" description:"Reasons of pauses; clients remove them to continue."`
	ControllerPause            bool               `json:"controllerPause,omitempty" description:"The controller has paused the update. Without pauseConditions, it was continued."`
	AbortedAt                  *metav1.Time       `json:"abortedAt,omitempty" description:"Time of the abort."`
	CurrentPodHash             string             `json:"currentPodHash,omitempty" description:"Hash of the template."`
	CurrentStepHash            string             `json:"currentStepHash,omitempty" description:"Hash of the steps."`
	Replicas                   int32              `json:"replicas,omitempty" description:"Number of Pods."`
	UpdatedReplicas            int32              `json:"updatedReplicas,omitempty" description:"Number of Pods of the template."`
	ReadyReplicas              int32              `json:"readyReplicas,omitempty" description:"Number of Pods that are ready."`
	AvailableReplicas          int32              `json:"availableReplicas,omitempty" description:"Number of Pods that are available."`
	CurrentStepIndex           *int32             `json:"currentStepIndex,omitempty" description:"Index of the current step."`
	CollisionCount             *int32             `json:"collisionCount,omitempty" description:"Number of collisions of hashes of templates."`
	ObservedGeneration         string             `json:"observedGeneration,omitempty" description:"Generation that the status is about."`
	Conditions                 []RolloutCondition `json:"conditions,omitempty" description:"Conditions."`
	Canary                     CanaryStatus       `json:"canary,omitzero" description:"State of a canary."`
	BlueGreen                  BlueGreenStatus    `json:"blueGreen,omitzero" description:"State of a blue-green update."`
	HPAReplicas                int32              `json:"HPAReplicas,omitempty" description:"Number of Pods that an autoscaler counts."`
	Selector                   string             `json:"selector,omitempty" description:"Selector of the Pods that an autoscaler counts."`
	StableRS                   string             `json:"stableRS,omitempty" description:"Hash of the stable ReplicaSet."`
	RestartedAt                *metav1.Time       `json:"restartedAt,omitempty" description:"restartAt of the last restart."`
	PromoteFull                bool               `json:"promoteFull,omitempty" description:"The update skips all steps, which clients request."`
	Phase                      string             `json:"phase,omitempty" description:"Healthy, Progressing, Paused or Degraded."`
	Message                    string             `json:"message,omitempty" description:"Reason of the phase."`
	WorkloadObservedGeneration string             `json:"workloadObservedGeneration,omitempty" description:"Generation of the referenced workload that the status is about."`
}

// The phases.
const (
	PhaseHealthy     = "Healthy"
	PhaseDegraded    = "Degraded"
	PhaseProgressing = "Progressing"
	PhasePaused      = "Paused"
)

// PauseCondition is the reason of a pause.
type PauseCondition struct {
	Reason    string      `json:"reason" required:"true" description:"Reason."`
	StartTime metav1.Time `json:"startTime" required:"true" description:"Start of the pause."`
}

// The reasons of pauses.
const (
	PauseInconclusiveAnalysis = "InconclusiveAnalysisRun"
	PauseCanaryStep           = "CanaryPauseStep"
	PauseBlueGreen            = "BlueGreenPause"
)

// CanaryStatus is the state of a canary.
type CanaryStatus struct {
	CurrentStepAnalysisRunStatus       *RolloutAnalysisRunStatus `json:"currentStepAnalysisRunStatus,omitempty" description:"AnalysisRun of the current step."`
	CurrentBackgroundAnalysisRunStatus *RolloutAnalysisRunStatus `json:"currentBackgroundAnalysisRunStatus,omitempty" description:"AnalysisRun during the steps."`
	Weights                            *TrafficWeights           `json:"weights,omitempty" description:"Weights that the router has."`
}

// BlueGreenStatus is the state of a blue-green update.
type BlueGreenStatus struct {
	PreviewSelector                string                    `json:"previewSelector,omitempty" description:"Hash that the preview Service selects."`
	ActiveSelector                 string                    `json:"activeSelector,omitempty" description:"Hash that the active Service selects."`
	ScaleUpPreviewCheckPoint       bool                      `json:"scaleUpPreviewCheckPoint,omitempty" description:"The preview may grow to its full size."`
	PrePromotionAnalysisRunStatus  *RolloutAnalysisRunStatus `json:"prePromotionAnalysisRunStatus,omitempty" description:"AnalysisRun before the promotion."`
	PostPromotionAnalysisRunStatus *RolloutAnalysisRunStatus `json:"postPromotionAnalysisRunStatus,omitempty" description:"AnalysisRun after the promotion."`
}

// TrafficWeights are the weights of both ReplicaSets.
type TrafficWeights struct {
	Canary   WeightDestination `json:"canary" required:"true" description:"New ReplicaSet."`
	Stable   WeightDestination `json:"stable" required:"true" description:"Stable ReplicaSet."`
	Verified *bool             `json:"verified,omitempty" description:"The router serves the weights."`
}

// WeightDestination is a weight.
type WeightDestination struct {
	Weight          int32  `json:"weight" required:"true" description:"Weight."`
	ServiceName     string `json:"serviceName,omitempty" description:"Service."`
	PodTemplateHash string `json:"podTemplateHash,omitempty" description:"Hash of the ReplicaSet."`
}

// RolloutAnalysisRunStatus is the state of an AnalysisRun.
type RolloutAnalysisRunStatus struct {
	Name    string `json:"name" required:"true" description:"Name of the AnalysisRun."`
	Status  string `json:"status" required:"true" description:"Phase of the AnalysisRun."`
	Message string `json:"message,omitempty" description:"Message of the AnalysisRun."`
}

// RolloutCondition is a condition of a Rollout.
type RolloutCondition struct {
	Type               string      `json:"type" required:"true" description:"Type."`
	Status             string      `json:"status" required:"true" description:"True, False or Unknown."`
	LastUpdateTime     metav1.Time `json:"lastUpdateTime" required:"true" description:"Time of the last update."`
	LastTransitionTime metav1.Time `json:"lastTransitionTime" required:"true" description:"Time of the last change of the status."`
	Reason             string      `json:"reason" required:"true" description:"Reason."`
	Message            string      `json:"message" required:"true" description:"Message."`
}

// The types of conditions.
const (
	ConditionInvalidSpec    = "InvalidSpec"
	ConditionAvailable      = "Available"
	ConditionProgressing    = "Progressing"
	ConditionReplicaFailure = "ReplicaFailure"
	ConditionPaused         = "Paused"
	ConditionCompleted      = "Completed"
	ConditionHealthy        = "Healthy"
)
