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
	SourceRepos                     []string                               `json:"sourceRepos,omitzero" description:"Patterns of permitted repositories; a pattern that starts with ! denies."`
	Destinations                    []ApplicationDestination               `json:"destinations,omitzero" description:"Patterns of permitted destination clusters and namespaces; a pattern that starts with ! denies."`
	SourceNamespaces                []string                               `json:"sourceNamespaces,omitzero" description:"Patterns of the namespaces in which Applications of the project may be."`
	ClusterResourceWhitelist        []ClusterResourceRule                  `json:"clusterResourceWhitelist,omitzero" description:"Cluster-scoped kinds that may be applied. Defaults to none."`
	ClusterResourceBlacklist        []ClusterResourceRule                  `json:"clusterResourceBlacklist,omitzero" description:"Cluster-scoped kinds that must not be applied."`
	NamespaceResourceWhitelist      []ResourceRule                         `json:"namespaceResourceWhitelist,omitzero" description:"Namespaced kinds that may be applied. Defaults to all."`
	NamespaceResourceBlacklist      []ResourceRule                         `json:"namespaceResourceBlacklist,omitzero" description:"Namespaced kinds that must not be applied."`
	SyncWindows                     []SyncWindow                           `json:"syncWindows,omitzero" description:"Times at which syncs may or must not run."`
	DestinationServiceAccounts      []ApplicationDestinationServiceAccount `json:"destinationServiceAccounts,omitzero" description:"ServiceAccounts whose permissions are used to apply objects, by destination. The first match is used."`
	Description                     string                                 `json:"description,omitzero" description:"Description of the project."`
	Roles                           []ProjectRole                          `json:"roles,omitzero" description:"Rights in the project for groups of the identity provider, through the platform."`
	OrphanedResources               *OrphanedResourcesMonitorSettings      `json:"orphanedResources,omitzero" ignored:"objects that no Application owns are not watched, so none is reported: remove it, or list such objects with kubectl" description:"Has no effect: objects that no Application owns are not reported."`
	SignatureKeys                   []SignatureKey                         `json:"signatureKeys,omitzero" description:"Keys of OpenPGP; every commit of Git that is deployed has to be signed by one of them. Defaults to none, which checks no signatures."`
	SourceIntegrity                 Unsupported                            `json:"sourceIntegrity,omitzero" refused:"signatures are checked by signatureKeys, for all repositories of the project: list the keys there, and remove it" description:"Not supported."`
	PermitOnlyProjectScopedClusters bool                                   `json:"permitOnlyProjectScopedClusters,omitzero" description:"Permits only clusters whose Secret names the project in its field project."`
}

// SignatureKey is a key whose signature a commit may have.
type SignatureKey struct {
	KeyID string `json:"keyID" required:"true" description:"Long id of the key, with 16 digits, or its fingerprint."`
}

// ResourceRule is a pattern of kinds.
type ResourceRule struct {
	Group string `json:"group" required:"true" description:"API group; * matches every group, and the empty string is the core group."`
	Kind  string `json:"kind" required:"true" description:"Kind; * matches every kind."`
}

// ClusterResourceRule is a pattern of objects without a namespace.
type ClusterResourceRule struct {
	Group string `json:"group" required:"true" description:"API group; * matches every group, and the empty string is the core group."`
	Kind  string `json:"kind" required:"true" description:"Kind; * matches every kind."`
	Name  string `json:"name,omitzero" description:"Pattern of names. Defaults to all."`
}

// SyncWindow is a time at which syncs may or must not run.
type SyncWindow struct {
	Kind           string   `json:"kind,omitzero" enum:",allow,deny" description:"allow or deny."`
	Schedule       string   `json:"schedule,omitzero" description:"Start of the window, as a cron expression with five fields."`
	Duration       string   `json:"duration,omitzero" description:"Duration of the window, such as 1h."`
	Applications   []string `json:"applications,omitzero" description:"Patterns of the Applications that the window applies to."`
	Namespaces     []string `json:"namespaces,omitzero" description:"Patterns of the namespaces that the window applies to."`
	Clusters       []string `json:"clusters,omitzero" description:"Patterns of the clusters that the window applies to."`
	ManualSync     bool     `json:"manualSync,omitzero" description:"Allows manual syncs."`
	TimeZone       string   `json:"timeZone,omitzero" description:"Time zone of the schedule. Defaults to UTC."`
	UseAndOperator bool     `json:"andOperator,omitzero" description:"Whether all of applications, namespaces and clusters must match, instead of one."`
	SyncOverrun    bool     `json:"syncOverrun,omitzero" description:"Allows a running sync to continue when the window ends."`
	Description    string   `json:"description,omitzero" description:"Description of the window."`
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
	Server                string `json:"server" required:"true" description:"Pattern of the cluster's URL."`
	Namespace             string `json:"namespace,omitzero" description:"Pattern of the namespace of the destination."`
	DefaultServiceAccount string `json:"defaultServiceAccount" required:"true" description:"The ServiceAccount, as name or namespace:name."`
}

// ProjectRole is a role in Argo CD's API. It is preserved and grants no rights
// here.
type ProjectRole struct {
	Name        string     `json:"name" required:"true" description:"Name of the role."`
	Description string     `json:"description,omitzero" description:"Description of the role."`
	Policies    []string   `json:"policies,omitzero" description:"Policies of the role."`
	Groups      []string   `json:"groups,omitzero" description:"Groups that have the role."`
	JWTTokens   []JWTToken `json:"jwtTokens,omitzero" description:"Tokens that were issued."`
}

// JWTToken is a token that Argo CD issued. It contains no secret.
type JWTToken struct {
	IssuedAt  int64  `json:"iat" required:"true" description:"When the token was issued."`
	ExpiresAt int64  `json:"exp,omitzero" description:"When the token expires."`
	ID        string `json:"id,omitzero" description:"ID of the token."`
}

// AppProjectStatus is the status of an AppProject.
type AppProjectStatus struct {
	JWTTokensByRole map[string]any `json:"jwtTokensByRole,omitzero" description:"Tokens that Argo CD issued, by role."`
}
