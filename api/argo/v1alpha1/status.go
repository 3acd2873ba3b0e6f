package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ApplicationStatus is the observed state of an Application. Its form is Argo
// CD's, so that existing dashboards and clients can read it.
type ApplicationStatus struct {
	Resources            []ResourceStatus       `json:"resources,omitzero" description:"The objects of the Application."`
	Sync                 SyncStatus             `json:"sync,omitzero" description:"How Git and cluster compare."`
	Health               HealthStatus           `json:"health,omitzero" description:"How the objects are."`
	History              []RevisionHistory      `json:"history,omitzero" description:"Past syncs, the oldest first."`
	Conditions           []ApplicationCondition `json:"conditions,omitzero" description:"Errors and warnings."`
	ReconciledAt         *metav1.Time           `json:"reconciledAt,omitzero" description:"When Git and cluster were last compared."`
	OperationState       *OperationState        `json:"operationState,omitzero" description:"The last sync, or the one that runs."`
	ObservedAt           *metav1.Time           `json:"observedAt,omitzero" description:"When the cluster was last looked at."`
	SourceType           SourceType             `json:"sourceType,omitzero" description:"What the source is: Helm, Kustomize or Directory."`
	SourceTypes          []SourceType           `json:"sourceTypes,omitzero" description:"What each of sources is."`
	Summary              ApplicationSummary     `json:"summary,omitzero" description:"Addresses and images of the objects."`
	ResourceHealthSource string                 `json:"resourceHealthSource,omitzero" description:"Where the health of objects is; empty is here."`
	ControllerNamespace  string                 `json:"controllerNamespace,omitzero" description:"Namespace of the controller."`
}

// SourceType is how a source is rendered.
type SourceType string

// How sources are rendered.
const (
	SourceHelm      SourceType = "Helm"
	SourceKustomize SourceType = "Kustomize"
	SourceDirectory SourceType = "Directory"
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
	ComparedTo ComparedTo     `json:"comparedTo,omitzero" description:"What was compared."`
	Revision   string         `json:"revision,omitzero" description:"The revision that was compared."`
	Revisions  []string       `json:"revisions,omitzero" description:"The revision of each of sources."`
}

// ComparedTo has the sources and settings of the last comparison.
type ComparedTo struct {
	Source            *ApplicationSource          `json:"source,omitzero" free:"true" description:"The source."`
	Sources           []ApplicationSource         `json:"sources,omitzero" free:"true" description:"The sources."`
	Destination       ApplicationDestination      `json:"destination" description:"The destination."`
	IgnoreDifferences []ResourceIgnoreDifferences `json:"ignoreDifferences,omitzero" free:"true" description:"What did not count."`
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
	Message            string       `json:"message,omitzero" description:"Why."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"Since when."`
}

// ResourceStatus is one object of an Application.
type ResourceStatus struct {
	Group                        string         `json:"group,omitzero" description:"Group of the object."`
	Version                      string         `json:"version,omitzero" description:"Version of the object."`
	Kind                         string         `json:"kind,omitzero" description:"Kind of the object."`
	Namespace                    string         `json:"namespace,omitzero" description:"Namespace of the object."`
	Name                         string         `json:"name,omitzero" description:"Name of the object."`
	Status                       SyncStatusCode `json:"status,omitzero" description:"Synced, OutOfSync or Unknown."`
	Health                       *HealthStatus  `json:"health,omitzero" description:"How the object is."`
	Hook                         bool           `json:"hook,omitzero" description:"It is a hook."`
	RequiresPruning              bool           `json:"requiresPruning,omitzero" description:"It is no longer in Git."`
	RequiresDeletionConfirmation bool           `json:"requiresDeletionConfirmation,omitzero" description:"Somebody has to confirm that it is deleted."`
	SyncWave                     int64          `json:"syncWave,omitzero" description:"Its wave in a sync."`
}

// RevisionHistory is a past sync.
type RevisionHistory struct {
	ID              int64               `json:"id" description:"Number of the sync, for a rollback."`
	Revision        string              `json:"revision,omitzero" description:"The revision that was synced to."`
	Revisions       []string            `json:"revisions,omitzero" description:"The revision of each of sources."`
	Source          *ApplicationSource  `json:"source,omitzero" free:"true" description:"The source."`
	Sources         []ApplicationSource `json:"sources,omitzero" free:"true" description:"The sources."`
	DeployStartedAt *metav1.Time        `json:"deployStartedAt,omitzero" description:"When the sync started."`
	DeployedAt      metav1.Time         `json:"deployedAt" description:"When it ended."`
	InitiatedBy     OperationInitiator  `json:"initiatedBy,omitzero" description:"Who asked."`
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
)

// ApplicationCondition is an error or a warning.
type ApplicationCondition struct {
	Type               string       `json:"type" description:"What it is about, such as SyncError."`
	Message            string       `json:"message" description:"What is wrong and what to do."`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitzero" description:"Since when."`
}

// ApplicationSummary has what people look for first.
type ApplicationSummary struct {
	ExternalURLs []string `json:"externalURLs,omitzero" description:"Addresses that the objects answer at."`
	Images       []string `json:"images,omitzero" description:"Images of the objects."`
}
