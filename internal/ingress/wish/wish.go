// Package wish holds what those who ask for certificates and those who fetch
// them have in common: what is wished for, where a certificate is kept, and how
// the answers to an authority's challenges are written down.
//
// A certificate lives in a Secret of the namespace that wished for it, under a
// name that follows from the resolver and the hosts. So everybody finds it
// without asking anybody, and the same wish of two Ingresses is one certificate.
//
// It is plain values: it asks nobody and fetches nothing.
package wish

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The marks on a Secret that the edge made. One without them is somebody
// else's, whatever its name.
const (
	// ManagedLabel and ManagedValue are on every Secret that the edge makes.
	ManagedLabel = "app.kubernetes.io/managed-by"
	ManagedValue = "slipway"
	// PurposeLabel says what the Secret is for: a certificate, an account or
	// challenges.
	PurposeLabel       = "slipway.dev/acme"
	PurposeCertificate = "certificate"
	PurposeAccount     = "account"
	PurposeChallenges  = "challenges"
	// ResolverAnnotation and HostsAnnotation say what a certificate was fetched
	// for; hosts are separated by commas.
	ResolverAnnotation = "slipway.dev/acme-resolver"
	HostsAnnotation    = "slipway.dev/acme-hosts"
)

// Wish is a certificate that is wanted.
type Wish struct {
	Resolver string
	// Hosts are the names that it is to have, the main one first, each once.
	Hosts []string
	// Secret is where it is kept.
	Secret snapshot.Ref
	// Ready is set while the Secret has a certificate that can be shown.
	Ready bool
	// From are the Ingresses that want it, sorted.
	From []Wisher
}

// Wisher is a place in an Ingress that wants a certificate.
type Wisher struct {
	Ingress snapshot.Ref
	Field   string
}

// SecretName is the name of the Secret for a certificate. The order of the hosts
// has no effect on it.
func SecretName(resolver string, hosts []string) string {
	sorted := slices.Clone(hosts)
	slices.Sort(sorted)
	// No host and no resolver has a line break in it.
	sum := sha256.Sum256([]byte(resolver + "\n" + strings.Join(sorted, "\n")))
	return "acme-" + hex.EncodeToString(sum[:8])
}

// Fetched reports whether a Secret with these labels and annotations is the one
// that was made for a resolver and hosts.
func Fetched(labels, annotations map[string]string, resolver string, hosts []string) bool {
	if labels[ManagedLabel] != ManagedValue || labels[PurposeLabel] != PurposeCertificate {
		return false
	}
	written := strings.Split(annotations[HostsAnnotation], ",")
	return annotations[ResolverAnnotation] == resolver && SecretName(resolver, written) == SecretName(resolver, hosts)
}
