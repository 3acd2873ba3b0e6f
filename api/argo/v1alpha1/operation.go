package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Operation is a request for a sync. A client writes it into the Application,
// and it is removed when the sync starts.
type Operation struct {
	Sync        *SyncOperation     `json:"sync,omitzero" description:"What to sync."`
	InitiatedBy OperationInitiator `json:"initiatedBy,omitzero" description:"Who asked."`
	Info        []Info             `json:"info,omitzero" description:"What people should know about the sync."`
	Retry       *RetryStrategy     `json:"retry,omitzero" description:"What follows when it fails."`
}

// OperationInitiator is the user or the policy that requested a sync.
type OperationInitiator struct {
	Username  string `json:"username,omitzero" description:"Name of the user."`
	Automated bool   `json:"automated,omitzero" description:"Nobody asked: the policy of the Application did."`
}

// SyncOperation configures one sync.
type SyncOperation struct {
	Revision              string                  `json:"revision,omitzero" description:"Revision to sync to. Without it that of the source."`
	Revisions             []string                `json:"revisions,omitzero" description:"Revision for each of sources."`
	Prune                 bool                    `json:"prune,omitzero" description:"Deletes what is no longer in Git."`
	DryRun                bool                    `json:"dryRun,omitzero" description:"Changes nothing, and says what would be done."`
	SyncStrategy          *SyncStrategy           `json:"syncStrategy,omitzero" description:"With hooks, or apply alone."`
	Resources             []SyncOperationResource `json:"resources,omitzero" description:"The objects to sync. Without it all."`
	Source                *ApplicationSource      `json:"source,omitzero" free:"true" description:"Takes the place of the source, to roll back."`
	Sources               []ApplicationSource     `json:"sources,omitzero" free:"true" description:"Take the place of sources, to roll back."`
	SyncOptions           []string                `json:"syncOptions,omitzero" description:"How objects are applied. They win over those of the Application."`
	SelfHealAttemptsCount int64                   `json:"autoHealAttemptsCount,omitzero" description:"How often the same drift was repaired."`
	Manifests             Unsupported             `json:"manifests,omitzero" refused:"what is applied comes from the source and not from a client: commit it" description:"Not supported."`
}

// SyncStrategy selects whether hooks run. By default they do.
type SyncStrategy struct {
	Apply *SyncStrategyForce `json:"apply,omitzero" description:"Applies objects and runs no hooks."`
	Hook  *SyncStrategyForce `json:"hook,omitzero" description:"Runs hooks."`
}

// SyncStrategyForce is common to both strategies.
type SyncStrategyForce struct {
	Force bool `json:"force,omitzero" description:"Deletes and creates objects that cannot be changed."`
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
	Namespace string `json:"namespace,omitzero" description:"Namespace of the object. Without it any."`
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
	Operation  Operation            `json:"operation" free:"true" description:"What was asked for."`
	Phase      OperationPhase       `json:"phase" description:"How far it is: Running, Terminating, Failed, Error or Succeeded."`
	Message    string               `json:"message,omitzero" description:"What happened."`
	SyncResult *SyncOperationResult `json:"syncResult,omitzero" description:"What was done."`
	StartedAt  metav1.Time          `json:"startedAt" description:"When it started."`
	FinishedAt *metav1.Time         `json:"finishedAt,omitzero" description:"When it ended."`
	RetryCount int64                `json:"retryCount,omitzero" description:"How often it was tried again."`
}

// SyncOperationResult is the result of a sync.
type SyncOperationResult struct {
	Resources                []ResourceResult          `json:"resources,omitzero" description:"What was done to each object."`
	Revision                 string                    `json:"revision" description:"The revision that was synced to."`
	Revisions                []string                  `json:"revisions,omitzero" description:"The revision of each of sources."`
	Source                   *ApplicationSource        `json:"source,omitzero" free:"true" description:"The source that was synced to."`
	Sources                  []ApplicationSource       `json:"sources,omitzero" free:"true" description:"The sources that were synced to."`
	ManagedNamespaceMetadata *ManagedNamespaceMetadata `json:"managedNamespaceMetadata,omitzero" description:"What the namespace was given."`
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
	Status    ResultCode     `json:"status,omitzero" description:"What became of it. A hook has none."`
	Message   string         `json:"message,omitzero" description:"What happened."`
	HookType  HookType       `json:"hookType,omitzero" description:"When it runs, for a hook."`
	HookPhase OperationPhase `json:"hookPhase,omitzero" description:"How far it is."`
	SyncPhase HookType       `json:"syncPhase,omitzero" description:"The phase of the sync: PreSync, Sync, PostSync or SyncFail."`
	Images    []string       `json:"images,omitzero" description:"Images of the object."`
}
