package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Operation is a request for a sync. A client writes it into the Application,
// and it is removed when the sync starts.
type Operation struct {
	Sync        *SyncOperation     `json:"sync,omitzero" description:"Parameters of the sync."`
	InitiatedBy OperationInitiator `json:"initiatedBy,omitzero" description:"Who initiated the operation."`
	Info        []Info             `json:"info,omitzero" description:"Information for users about the sync."`
	Retry       *RetryStrategy     `json:"retry,omitzero" description:"Retries when the sync fails."`
}

// OperationInitiator is the user or the policy that requested a sync.
type OperationInitiator struct {
	Username  string `json:"username,omitzero" description:"Name of the user."`
	Automated bool   `json:"automated,omitzero" description:"Whether the sync policy of the Application initiated the operation, and no user."`
}

// SyncOperation configures one sync.
type SyncOperation struct {
	Revision              string                  `json:"revision,omitzero" description:"Revision to sync to. Defaults to the revision of the source."`
	Revisions             []string                `json:"revisions,omitzero" description:"Revision for each source."`
	Prune                 bool                    `json:"prune,omitzero" description:"Deletes objects that are no longer in Git."`
	DryRun                bool                    `json:"dryRun,omitzero" description:"Reports what the sync would do, without changing anything."`
	SyncStrategy          *SyncStrategy           `json:"syncStrategy,omitzero" description:"Sync with hooks, or apply only."`
	Resources             []SyncOperationResource `json:"resources,omitzero" description:"The objects to sync. Defaults to all."`
	Source                *ApplicationSource      `json:"source,omitzero" free:"true" description:"Replaces the source, for a rollback."`
	Sources               []ApplicationSource     `json:"sources,omitzero" free:"true" description:"Replaces the sources, for a rollback."`
	SyncOptions           []string                `json:"syncOptions,omitzero" description:"Options for applying objects. They take precedence over those of the Application."`
	SelfHealAttemptsCount int64                   `json:"autoHealAttemptsCount,omitzero" description:"Number of times that self-heal repaired the same drift."`
	Manifests             Unsupported             `json:"manifests,omitzero" refused:"objects come from the source, so that Git has what is deployed: commit them, or compare them with slipway app diff --local" description:"Not supported."`
}

// SyncStrategy selects whether hooks run. By default they do.
type SyncStrategy struct {
	Apply *SyncStrategyForce `json:"apply,omitzero" description:"Applies objects and runs no hooks."`
	Hook  *SyncStrategyForce `json:"hook,omitzero" description:"Runs hooks."`
}

// SyncStrategyForce is common to both strategies.
type SyncStrategyForce struct {
	Force bool `json:"force,omitzero" description:"Deletes and recreates objects that cannot be updated."`
}

// Forced reports whether objects with immutable changes are deleted and
// created.
func (s *SyncStrategy) Forced() bool {
	return s != nil && (s.Apply != nil && s.Apply.Force || s.Hook != nil && s.Hook.Force)
}

// RunsHooks reports whether hooks run.
func (s *SyncStrategy) RunsHooks() bool { return s == nil || s.Apply == nil }

// SyncOperationResource selects an object to sync.
type SyncOperationResource struct {
	Group     string `json:"group,omitzero" description:"Group of the object."`
	Kind      string `json:"kind" required:"true" description:"Kind of the object."`
	Name      string `json:"name" required:"true" description:"Name of the object."`
	Namespace string `json:"namespace,omitzero" description:"Namespace of the object. Defaults to any."`
}

// OperationPhase is the progress of a sync.
type OperationPhase string

// The phases of a sync.
const (
	OperationRunning     OperationPhase = "Running"
	OperationTerminating OperationPhase = "Terminating"
	OperationFailed      OperationPhase = "Failed"
	OperationError       OperationPhase = "Error"
	OperationSucceeded   OperationPhase = "Succeeded"
)

// Completed reports whether the sync has ended, with any result.
func (p OperationPhase) Completed() bool {
	return p == OperationFailed || p == OperationError || p == OperationSucceeded
}

// OperationState is the state of the last or the running sync.
type OperationState struct {
	Operation  Operation            `json:"operation" free:"true" description:"The requested operation."`
	Phase      OperationPhase       `json:"phase" description:"Phase of the operation: Running, Terminating, Failed, Error or Succeeded."`
	Message    string               `json:"message,omitzero" description:"Human-readable result."`
	SyncResult *SyncOperationResult `json:"syncResult,omitzero" description:"Result of the sync."`
	StartedAt  metav1.Time          `json:"startedAt" description:"When the operation started."`
	FinishedAt *metav1.Time         `json:"finishedAt,omitzero" description:"When the operation ended."`
	RetryCount int64                `json:"retryCount,omitzero" description:"Number of retries."`
	// RequestGeneration is not one of Argo CD's: a request is removed from the
	// Application after its state was written, and must not run again if the
	// runtime ends in between.
	RequestGeneration int64 `json:"requestGeneration,omitzero" description:"Generation of the Application whose operation it is, if a client requested it."`
}

// SyncOperationResult is the result of a sync.
type SyncOperationResult struct {
	Resources                []ResourceResult          `json:"resources,omitzero" description:"Result for each object."`
	Revision                 string                    `json:"revision" description:"The revision that was synced to."`
	Revisions                []string                  `json:"revisions,omitzero" description:"The revision of each source."`
	Source                   *ApplicationSource        `json:"source,omitzero" free:"true" description:"The source that was synced to."`
	Sources                  []ApplicationSource       `json:"sources,omitzero" free:"true" description:"The sources that were synced to."`
	ManagedNamespaceMetadata *ManagedNamespaceMetadata `json:"managedNamespaceMetadata,omitzero" description:"Labels and annotations that the namespace got."`
}

// ResultCode is the result of one object in a sync.
type ResultCode string

// The results of the sync of an object.
const (
	ResultSynced       ResultCode = "Synced"
	ResultSyncFailed   ResultCode = "SyncFailed"
	ResultPruned       ResultCode = "Pruned"
	ResultPruneSkipped ResultCode = "PruneSkipped"
)

// HookType is the phase in which a hook runs.
type HookType string

// When hooks run. Skip is for objects that are never applied.
const (
	HookPreSync    HookType = "PreSync"
	HookSync       HookType = "Sync"
	HookPostSync   HookType = "PostSync"
	HookSyncFail   HookType = "SyncFail"
	HookSkip       HookType = "Skip"
	HookPreDelete  HookType = "PreDelete"
	HookPostDelete HookType = "PostDelete"
)

// ResourceResult is the result of a sync for one object.
type ResourceResult struct {
	Group     string         `json:"group" description:"Group of the object."`
	Version   string         `json:"version" description:"Version of the object."`
	Kind      string         `json:"kind" description:"Kind of the object."`
	Namespace string         `json:"namespace" description:"Namespace of the object."`
	Name      string         `json:"name" description:"Name of the object."`
	Status    ResultCode     `json:"status,omitzero" description:"Result of applying the object. Empty for hooks."`
	Message   string         `json:"message,omitzero" description:"Human-readable result."`
	HookType  HookType       `json:"hookType,omitzero" description:"Phase in which a hook runs."`
	HookPhase OperationPhase `json:"hookPhase,omitzero" description:"Phase of the hook."`
	SyncPhase HookType       `json:"syncPhase,omitzero" description:"The phase of the sync: PreSync, Sync, PostSync or SyncFail."`
	Images    []string       `json:"images,omitzero" description:"Images of the object."`
}
