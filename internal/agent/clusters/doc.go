// Package clusters manages the clusters that a runtime deploys to beside its
// own.
//
//	registry      the clusters that the Secrets of the control namespace describe
//	clusterspec   one such Secret, in Argo CD's form
//	refused       Secrets that cannot be used, and why
//	fleet         connections, caches and token renewal, while this replica leads
//	connections   clients for the API, on every replica
//	service       add, list and remove clusters
//
// Clusters that were added with Argo CD's tools are used as they are.
//
// The package promises that a cluster is reached over verified TLS unless its
// Secret disables that, that a renewed token is used at once and interrupts
// nothing, that an unreachable cluster does not disturb the others, and that
// credentials are in the Secret and nowhere else. Tokens that were created for
// us are short-lived and are renewed before they expire.
//
// It refuses Secrets that would run a program to get a credential, and ones
// with a password, which no API server accepts any more.
//
// See decision 0019 in docs/decisions: other clusters are Argo CD's Secrets,
// with a cache each.
package clusters
