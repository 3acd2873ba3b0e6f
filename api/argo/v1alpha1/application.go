package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
)

// Application declares the desired state of a part of a cluster, and where it
// is in Git.
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec      ApplicationSpec   `json:"spec"`
	Status    ApplicationStatus `json:"status,omitzero"`
	Operation *Operation        `json:"operation,omitzero"`

	// Warnings are the parts that Decode accepted and ignores. They are not part
	// of the object.
	Warnings []refusal.Refusal `json:"-"`
}

// ApplicationSpec is the desired state of an Application.
type ApplicationSpec struct {
	Source               *ApplicationSource          `json:"source,omitzero" description:"Source of the manifests. An Application has either source or sources."`
	Sources              []ApplicationSource         `json:"sources,omitzero" description:"Several sources of the manifests."`
	Destination          ApplicationDestination      `json:"destination" required:"true" description:"Cluster and namespace that the objects are deployed to."`
	Project              string                      `json:"project" required:"true" description:"Name of the AppProject whose limits apply. Empty means default."`
	SyncPolicy           *SyncPolicy                 `json:"syncPolicy,omitzero" description:"When and how the cluster is synced with Git."`
	IgnoreDifferences    []ResourceIgnoreDifferences `json:"ignoreDifferences,omitzero" description:"Fields of objects that the comparison of Git and cluster ignores."`
	Info                 []Info                      `json:"info,omitzero" description:"Information for users about the application."`
	RevisionHistoryLimit *int64                      `json:"revisionHistoryLimit,omitzero" minimum:"0" description:"Number of past syncs that the status keeps. Defaults to 10."`
	SourceHydrator       Unsupported                 `json:"sourceHydrator,omitzero" refused:"rendered manifests are not written to Git: name what to render in source" description:"Not supported."`
}

// DefaultRevisionHistoryLimit is the default number of past syncs in the
// status.
const DefaultRevisionHistoryLimit = 10

// DefaultProject is the project of an Application that names none.
const DefaultProject = "default"

// AllSources returns the sources in their order, from either field.
func (s *ApplicationSpec) AllSources() []ApplicationSource {
	if len(s.Sources) > 0 {
		return s.Sources
	}
	if s.Source != nil {
		return []ApplicationSource{*s.Source}
	}
	return nil
}

// ProjectName returns the project, or the default one.
func (s *ApplicationSpec) ProjectName() string {
	return cmp.Or(s.Project, DefaultProject)
}

// HistoryLimit returns the number of past syncs that are kept.
func (s *ApplicationSpec) HistoryLimit() int {
	if s.RevisionHistoryLimit == nil {
		return DefaultRevisionHistoryLimit
	}
	return int(max(0, min(*s.RevisionHistoryLimit, maxHistory)))
}

// maxHistory bounds the status of an Application. The API server bounds its
// size as well.
const maxHistory = 1000

// ApplicationDestination is the cluster and namespace of the objects. In an
// AppProject each field is a pattern.
type ApplicationDestination struct {
	Server    string `json:"server,omitzero" description:"URL of the API server, such as https://kubernetes.default.svc."`
	Name      string `json:"name,omitzero" description:"Name of the cluster, instead of its URL."`
	Namespace string `json:"namespace,omitzero" description:"Namespace of objects whose manifests have none."`
}

// ResourceIgnoreDifferences selects objects, and the fields of them that the
// comparison of Git and cluster ignores.
type ResourceIgnoreDifferences struct {
	Group                 string   `json:"group,omitzero" description:"API group of the objects; * matches every group."`
	Kind                  string   `json:"kind" required:"true" description:"Kind of the objects; * matches every kind."`
	Name                  string   `json:"name,omitzero" description:"Name of the object. Defaults to all objects of the kind."`
	Namespace             string   `json:"namespace,omitzero" description:"Namespace of the objects. Defaults to all."`
	JSONPointers          []string `json:"jsonPointers,omitzero" description:"Fields as JSON pointers, such as /spec/replicas."`
	JQPathExpressions     []string `json:"jqPathExpressions,omitzero" description:"Fields as jq paths, such as .spec.template.spec.initContainers[]."`
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitzero" description:"Field managers whose fields are ignored."`
}

// Info is a name and a value for display.
type Info struct {
	Name  string `json:"name" required:"true" description:"Name of the value."`
	Value string `json:"value" required:"true" description:"The value, such as a URL."`
}

// SyncPolicy configures syncs.
type SyncPolicy struct {
	Automated                *SyncPolicyAutomated      `json:"automated,omitzero" description:"Syncs automatically when Git changes."`
	SyncOptions              []string                  `json:"syncOptions,omitzero" description:"Options for applying objects, such as CreateNamespace=true."`
	Retry                    *RetryStrategy            `json:"retry,omitzero" description:"Retries of a failed sync."`
	ManagedNamespaceMetadata *ManagedNamespaceMetadata `json:"managedNamespaceMetadata,omitzero" description:"Labels and annotations of the namespace, with CreateNamespace=true."`
}

// SyncPolicyAutomated configures automated syncs.
type SyncPolicyAutomated struct {
	Prune      bool  `json:"prune,omitzero" description:"Deletes objects that are no longer in Git."`
	SelfHeal   bool  `json:"selfHeal,omitzero" description:"Reverts changes that were made in the cluster."`
	AllowEmpty bool  `json:"allowEmpty,omitzero" description:"Allows a sync that deletes all objects because Git has none left."`
	Enabled    *bool `json:"enabled,omitzero" description:"Disables automated syncs when false."`
}

// IsAutomated reports whether syncs start automatically.
func (p *SyncPolicy) IsAutomated() bool {
	return p != nil && p.Automated != nil && (p.Automated.Enabled == nil || *p.Automated.Enabled)
}

// ManagedNamespaceMetadata are labels and annotations of an Application's
// namespace.
type ManagedNamespaceMetadata struct {
	Labels      map[string]string `json:"labels,omitzero" description:"Labels of the namespace."`
	Annotations map[string]string `json:"annotations,omitzero" description:"Annotations of the namespace."`
}
