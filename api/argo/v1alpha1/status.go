package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ApplicationStatus is the observed state of an Application. Its form is Argo
// CD's, so that existing dashboards and clients can read it.
type ApplicationStatus struct {
	Resources            []ResourceStatus       `json:"resources,omitzero" description:"The objects of the Application."`
	Sync                 SyncStatus             `json:"sync,omitzero" description:"Result of the comparison of Git and the cluster."`
	Health               HealthStatus           `json:"health,omitzero" description:"Aggregated health of the objects."`
	History              []RevisionHistory      `json:"history,omitzero" description:"Past syncs, the oldest first."`
	Conditions           []ApplicationCondition `json:"conditions,omitzero" description:"Errors and warnings."`
	ReconciledAt         *metav1.Time           `json:"reconciledAt,omitzero" description:"When Git and cluster were last compared."`
	OperationState       *OperationState        `json:"operationState,omitzero" description:"The last or current sync operation."`
	ObservedAt           *metav1.Time           `json:"observedAt,omitzero" description:"When the cluster was last observed."`
	SourceType           SourceType             `json:"sourceType,omitzero" description:"Type of the source: Helm, Kustomize, Directory or Plugin."`
	SourceTypes          []SourceType           `json:"sourceTypes,omitzero" description:"Types of the sources."`
	Summary              ApplicationSummary     `json:"summary,omitzero" description:"Addresses and images of the objects."`
	ResourceHealthSource string                 `json:"resourceHealthSource,omitzero" description:"Where the health of objects is stored; empty means in this status."`
	ControllerNamespace  string                 `json:"controllerNamespace,omitzero" description:"Namespace of the controller."`
	Held                 *HeldRevision          `json:"held,omitzero" description:"The revision that serves in place of the one that the sources name, after a rollback."`
	// SyncedObjects is not one of Argo CD's: after a restart it shows whether the
	// objects in the cluster are those of a sync that was not recorded.
	SyncedObjects string `json:"syncedObjects,omitzero" description:"Digest of the rendered objects that were last found Synced."`
}

// HeldRevision is not one of Argo CD's: while it is set, an Application is compared
// with and synced to another revision than its sources name. It ends when the
// sources give other objects than those that are held back, or when a user syncs
// to them.
type HeldRevision struct {
	Revisions []string            `json:"revisions" description:"The revision of each source that serves."`
	Sources   []ApplicationSource `json:"sources,omitzero" free:"true" description:"The sources that the revisions are of."`
	// Target, TargetInputs and TargetObjects identify what is held back. Either
	// digest is enough: a render need not be repeatable, and a commit need not
	// change the files of the Application.
	Target        []string    `json:"target" description:"The revision of each source that is held back."`
	TargetInputs  string      `json:"targetInputs,omitzero" description:"Digest of the sources and revisions that are held back."`
	TargetObjects string      `json:"targetObjects,omitzero" description:"Digest of the rendered objects that are held back."`
	Reason        string      `json:"reason,omitzero" description:"Why it is held, in CamelCase: Rollback or ReleaseFailed."`
	Message       string      `json:"message,omitzero" description:"Human-readable reason."`
	HeldAt        metav1.Time `json:"heldAt" description:"When the hold began."`
}

// Reasons of a HeldRevision.
const (
	HeldByRollback = "Rollback"
	HeldByRelease  = "ReleaseFailed"
)

// SourceType is how a source is rendered.
type SourceType string

// How sources are rendered.
const (
	SourceHelm      SourceType = "Helm"
	SourceKustomize SourceType = "Kustomize"
	SourceDirectory SourceType = "Directory"
	SourcePlugin    SourceType = "Plugin"
)

// SyncStatusCode is the result of a comparison of Git and cluster.
type SyncStatusCode string

// The results of comparisons.
const (
	SyncUnknown   SyncStatusCode = "Unknown"
	SyncSynced    SyncStatusCode = "Synced"
	SyncOutOfSync SyncStatusCode = "OutOfSync"
)

// SyncStatus is the result of the last comparison of Git and cluster.
type SyncStatus struct {
	Status     SyncStatusCode `json:"status" description:"Synced, OutOfSync or Unknown."`
	ComparedTo ComparedTo     `json:"comparedTo,omitzero" description:"The source and destination that were compared."`
	Revision   string         `json:"revision,omitzero" description:"The revision that was compared."`
	Revisions  []string       `json:"revisions,omitzero" description:"The revision of each source."`
}

// ComparedTo has the sources and settings of the last comparison.
type ComparedTo struct {
	Source            *ApplicationSource          `json:"source,omitzero" free:"true" description:"The source."`
	Sources           []ApplicationSource         `json:"sources,omitzero" free:"true" description:"The sources."`
	Destination       ApplicationDestination      `json:"destination" description:"The destination."`
	IgnoreDifferences []ResourceIgnoreDifferences `json:"ignoreDifferences,omitzero" free:"true" description:"Differences that were ignored."`
}

// HealthCode is the health of an object or an Application.
type HealthCode string

// How objects and Applications are, the best first.
const (
	Healthy     HealthCode = "Healthy"
	Suspended   HealthCode = "Suspended"
	Progressing HealthCode = "Progressing"
	Missing     HealthCode = "Missing"
	Degraded    HealthCode = "Degraded"
	Unknown     HealthCode = "Unknown"
)

// HealthStatus is how an object or an Application is.
type HealthStatus struct {
	Status             HealthCode   `json:"status,omitzero" description:"Healthy, Suspended, Progressing, Missing, Degraded or Unknown."`
	Message            string       `json:"message,omitzero" description:"Human-readable reason."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"When the status last changed."`
}

// ResourceStatus is one object of an Application.
type ResourceStatus struct {
	Group                        string         `json:"group,omitzero" description:"Group of the object."`
	Version                      string         `json:"version,omitzero" description:"Version of the object."`
	Kind                         string         `json:"kind,omitzero" description:"Kind of the object."`
	Namespace                    string         `json:"namespace,omitzero" description:"Namespace of the object."`
	Name                         string         `json:"name,omitzero" description:"Name of the object."`
	Status                       SyncStatusCode `json:"status,omitzero" description:"Synced, OutOfSync or Unknown."`
	Health                       *HealthStatus  `json:"health,omitzero" description:"Health of the object."`
	Hook                         bool           `json:"hook,omitzero" description:"Whether the object is a hook."`
	RequiresPruning              bool           `json:"requiresPruning,omitzero" description:"Whether the object is no longer in Git and must be pruned."`
	RequiresDeletionConfirmation bool           `json:"requiresDeletionConfirmation,omitzero" description:"Whether a user must confirm the deletion of the object."`
	SyncWave                     int64          `json:"syncWave,omitzero" description:"Sync wave of the object."`
}

// RevisionHistory is a past sync.
type RevisionHistory struct {
	ID              int64               `json:"id" description:"Number of the sync, for a rollback."`
	Revision        string              `json:"revision,omitzero" description:"The revision that was synced to."`
	Revisions       []string            `json:"revisions,omitzero" description:"The revision of each source."`
	Source          *ApplicationSource  `json:"source,omitzero" free:"true" description:"The source."`
	Sources         []ApplicationSource `json:"sources,omitzero" free:"true" description:"The sources."`
	DeployStartedAt *metav1.Time        `json:"deployStartedAt,omitzero" description:"When the sync started."`
	DeployedAt      metav1.Time         `json:"deployedAt" description:"When the sync ended."`
	InitiatedBy     OperationInitiator  `json:"initiatedBy,omitzero" description:"Who initiated the operation."`
}

// The types of conditions. Those that end in Error stop a sync.
const (
	ConditionDeletionError           = "DeletionError"
	ConditionInvalidSpecError        = "InvalidSpecError"
	ConditionComparisonError         = "ComparisonError"
	ConditionSyncError               = "SyncError"
	ConditionUnknownError            = "UnknownError"
	ConditionSharedResourceWarning   = "SharedResourceWarning"
	ConditionRepeatedResourceWarning = "RepeatedResourceWarning"
	ConditionExcludedResourceWarning = "ExcludedResourceWarning"
	ConditionOrphanedResourceWarning = "OrphanedResourceWarning"
	// These are ours. RenderWarning has what a renderer warned of, and
	// UnlabelledResourceWarning names objects that Argo CD applied and that do
	// not have our label yet.
	ConditionRenderWarning             = "RenderWarning"
	ConditionUnlabelledResourceWarning = "UnlabelledResourceWarning"
	// ConditionIgnoredFieldWarning is not one of Argo CD's: it names what the
	// Application or its project sets and that has no effect.
	ConditionIgnoredFieldWarning = "IgnoredFieldWarning"
	// ConditionHeldRevisionWarning is not one of Argo CD's: another revision
	// serves than the one that the sources name.
	ConditionHeldRevisionWarning = "HeldRevisionWarning"
)

// ApplicationCondition is an error or a warning.
type ApplicationCondition struct {
	Type               string       `json:"type" description:"Type of the condition, such as SyncError."`
	Message            string       `json:"message" description:"Human-readable message with the cause and the fix."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"When the status last changed."`
}

// ApplicationSummary has what people look for first.
type ApplicationSummary struct {
	ExternalURLs []string `json:"externalURLs,omitzero" description:"URLs of the objects, such as those of Ingresses."`
	Images       []string `json:"images,omitzero" description:"Images of the objects."`
}
