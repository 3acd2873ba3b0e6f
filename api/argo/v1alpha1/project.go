package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
)

// AppProject limits the Applications of a tenant.
type AppProject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   AppProjectSpec   `json:"spec"`
	Status AppProjectStatus `json:"status,omitzero"`

	// Warnings are the parts that DecodeProject accepted and ignores. They are not
	// part of the object.
	Warnings []refusal.Refusal `json:"-"`
}

// AppProjectSpec has the limits of an AppProject.
//
// An empty namespaceResourceWhitelist allows nothing, and a missing one allows
// everything, so that empty lists are preserved.
type AppProjectSpec struct {
	SourceRepos                     []string                               `json:"sourceRepos,omitzero" description:"Patterns of the repositories that may be used; one that starts with ! forbids."`
	Destinations                    []ApplicationDestination               `json:"destinations,omitzero" description:"Patterns of the clusters and namespaces that objects may go to; one that starts with ! forbids."`
	SourceNamespaces                []string                               `json:"sourceNamespaces,omitzero" description:"Patterns of the namespaces that Applications of the project may be in."`
	ClusterResourceWhitelist        []ClusterResourceRule                  `json:"clusterResourceWhitelist,omitzero" description:"Kinds without a namespace that may be applied. Without it none."`
	ClusterResourceBlacklist        []ClusterResourceRule                  `json:"clusterResourceBlacklist,omitzero" description:"Kinds without a namespace that must not be applied."`
	NamespaceResourceWhitelist      []ResourceRule                         `json:"namespaceResourceWhitelist,omitzero" description:"Kinds with a namespace that may be applied. Without it all."`
	NamespaceResourceBlacklist      []ResourceRule                         `json:"namespaceResourceBlacklist,omitzero" description:"Kinds with a namespace that must not be applied."`
	SyncWindows                     []SyncWindow                           `json:"syncWindows,omitzero" description:"Times at which syncs may or must not run."`
	DestinationServiceAccounts      []ApplicationDestinationServiceAccount `json:"destinationServiceAccounts,omitzero" description:"Whose rights objects are applied with, by destination. The first that fits counts."`
	Description                     string                                 `json:"description,omitzero" description:"What the project is for."`
	Roles                           []ProjectRole                          `json:"roles,omitzero" description:"Rights in Argo CD's own API. Here the rights in Kubernetes count, and these give nothing."`
	OrphanedResources               *OrphanedResourcesMonitorSettings      `json:"orphanedResources,omitzero" ignored:"objects that no Application owns are not watched, so none is reported: remove it, or list such objects with kubectl" description:"Has no effect: objects that no Application owns are not reported."`
	SignatureKeys                   Unsupported                            `json:"signatureKeys,omitzero" refused:"signatures of commits are not checked: protect the branch where it is hosted, and remove it" description:"Not supported."`
	SourceIntegrity                 Unsupported                            `json:"sourceIntegrity,omitzero" refused:"signatures of commits are not checked: protect the branch where it is hosted, and remove it" description:"Not supported."`
	PermitOnlyProjectScopedClusters Unsupported                            `json:"permitOnlyProjectScopedClusters,omitzero" refused:"clusters do not belong to projects: list them in destinations" description:"Not supported."`
}

// ResourceRule is a pattern of kinds.
type ResourceRule struct {
	Group string `json:"group" required:"true" description:"Group; * is every group, and empty the core group."`
	Kind  string `json:"kind" required:"true" description:"Kind; * is every kind."`
}

// ClusterResourceRule is a pattern of objects without a namespace.
type ClusterResourceRule struct {
	Group string `json:"group" required:"true" description:"Group; * is every group, and empty the core group."`
	Kind  string `json:"kind" required:"true" description:"Kind; * is every kind."`
	Name  string `json:"name,omitzero" description:"Pattern of names. Without it all."`
}

// SyncWindow is a time at which syncs may or must not run.
type SyncWindow struct {
	Kind           string   `json:"kind,omitzero" enum:",allow,deny" description:"allow or deny."`
	Schedule       string   `json:"schedule,omitzero" description:"When it begins, as a cron expression of five fields."`
	Duration       string   `json:"duration,omitzero" description:"How long it is, such as 1h."`
	Applications   []string `json:"applications,omitzero" description:"Patterns of the Applications it is for."`
	Namespaces     []string `json:"namespaces,omitzero" description:"Patterns of the namespaces it is for."`
	Clusters       []string `json:"clusters,omitzero" description:"Patterns of the clusters it is for."`
	ManualSync     bool     `json:"manualSync,omitzero" description:"Lets syncs run that somebody asked for."`
	TimeZone       string   `json:"timeZone,omitzero" description:"Time zone of the schedule. Without it UTC."`
	UseAndOperator bool     `json:"andOperator,omitzero" description:"All of applications, namespaces and clusters have to fit, and not one."`
	SyncOverrun    bool     `json:"syncOverrun,omitzero" description:"Lets a sync that runs go on when the window ends it."`
	Description    string   `json:"description,omitzero" description:"What the window is for."`
}

// OrphanedResourcesMonitorSettings selects the objects without an Application
// that Argo CD warns about. It limits nothing and is preserved without effect.
type OrphanedResourcesMonitorSettings struct {
	Warn   *bool                 `json:"warn,omitzero" description:"Has no effect."`
	Ignore []OrphanedResourceKey `json:"ignore,omitzero" description:"Has no effect."`
}

// OrphanedResourceKey is a pattern of objects that Argo CD does not warn about.
type OrphanedResourceKey struct {
	Group string `json:"group,omitzero" description:"Has no effect."`
	Kind  string `json:"kind,omitzero" description:"Has no effect."`
	Name  string `json:"name,omitzero" description:"Has no effect."`
}

// ApplicationDestinationServiceAccount is the ServiceAccount that objects are
// applied as.
type ApplicationDestinationServiceAccount struct {
	Server                string `json:"server" required:"true" description:"Pattern of the cluster's address."`
	Namespace             string `json:"namespace,omitzero" description:"Pattern of the namespace of the destination."`
	DefaultServiceAccount string `json:"defaultServiceAccount" required:"true" description:"The ServiceAccount, as name or namespace:name."`
}

// ProjectRole is a role in Argo CD's API. It is preserved and grants no rights
// here.
type ProjectRole struct {
	Name        string     `json:"name" required:"true" description:"Name of the role."`
	Description string     `json:"description,omitzero" description:"What it is for."`
	Policies    []string   `json:"policies,omitzero" description:"What it may do."`
	Groups      []string   `json:"groups,omitzero" description:"Groups that have it."`
	JWTTokens   []JWTToken `json:"jwtTokens,omitzero" description:"Tokens that were given out."`
}

// JWTToken is a token that Argo CD issued. It contains no secret.
type JWTToken struct {
	IssuedAt  int64  `json:"iat" required:"true" description:"When it was given out."`
	ExpiresAt int64  `json:"exp,omitzero" description:"When it ends."`
	ID        string `json:"id,omitzero" description:"Its name."`
}

// AppProjectStatus is the status of an AppProject.
type AppProjectStatus struct {
	JWTTokensByRole map[string]any `json:"jwtTokensByRole,omitzero" description:"Tokens that Argo CD gave out, by role."`
}
