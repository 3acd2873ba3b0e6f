package rollout

// labelHash is the label of a ReplicaSet and its Pods with the hash of the template.
const labelHash = "rollouts-pod-template-hash"

// The annotations, as Argo Rollouts writes them.
const (
	annotationRevision        = "rollout.argoproj.io/revision"
	annotationRevisionHistory = "rollout.argoproj.io/revision-history"
	annotationDesired         = "rollout.argoproj.io/desired-replicas"
	annotationWorkload        = "rollout.argoproj.io/workload-generation"
	annotationEphemeral       = "rollout.argoproj.io/ephemeral-metadata"
	annotationNotified        = "notified.notifications.argoproj.io"
	annotationApplied         = "kubectl.kubernetes.io/last-applied-configuration"
	// annotationDeadline is the time at which a ReplicaSet is scaled to zero.
	annotationDeadline  = "scale-down-deadline"
	annotationManagedBy = "argo-rollouts.argoproj.io/managed-by-rollouts"
)

// The reasons of conditions and Events, as Argo Rollouts has them. Clients compare
// some of them.
const (
	reasonInvalidSpec     = "InvalidSpec"
	reasonAvailable       = "AvailableReason"
	reasonUpdated         = "ReplicaSetUpdated"
	reasonNotAvailable    = "ReplicaSetNotAvailable"
	reasonCreated         = "NewReplicaSetCreated"
	reasonFound           = "FoundNewReplicaSet"
	reasonNewAvailable    = "NewReplicaSetAvailable"
	reasonCompleted       = "RolloutCompleted"
	reasonNotCompleted    = "RolloutNotCompleted"
	reasonHealthy         = "RolloutHealthy"
	reasonAborted         = "RolloutAborted"
	reasonRetry           = "RolloutRetry"
	reasonPaused          = "RolloutPaused"
	reasonResumed         = "RolloutResumed"
	reasonStepCompleted   = "RolloutStepCompleted"
	reasonTimedOut        = "ProgressDeadlineExceeded"
	reasonScaling         = "ScalingReplicaSet"
	reasonSwitchService   = "SwitchService"
	reasonWeightUpdated   = "TrafficWeightUpdated"
	reasonRolloutUpdated  = "RolloutUpdated"
	reasonSkipSteps       = "SkipSteps"
	reasonAnalysisFailed  = "AnalysisRunFailed"
	reasonCanaryIngress   = "PatchingCanaryIngress"
	reasonCreateIngress   = "CreatingCanaryIngress"
	messageAvailable      = "Rollout has minimum availability"
	messageNotAvailable   = "Rollout does not have minimum availability"
	messageHealthy        = "Rollout is healthy"
	messageNotHealthy     = "Rollout is not healthy"
	messagePaused         = "Rollout is paused"
	messageResumed        = "Rollout is resumed"
	messageRetry          = "Retrying Rollout after abort"
	messageNewReplicaSet  = "Created new replica set %q"
	messageFound          = "Found new replica set %q"
	messageAborted        = "Rollout aborted update to revision %d"
	messageProgressing    = "ReplicaSet %q is progressing."
	messageTimedOut       = "ReplicaSet %q has timed out progressing."
	messageNewAvailable   = "ReplicaSet %q has successfully progressed."
	messageInvalidRollout = "The Rollout %q is invalid: %s"
)

// The defaults of a spec.
const (
	defaultReplicas         = 1
	defaultHistory          = 10
	defaultProgressDeadline = 600
	defaultScaleDownDelay   = 30
	defaultPercentage       = "25%"
	defaultWeight           = 100
	defaultRuns             = 5
)
