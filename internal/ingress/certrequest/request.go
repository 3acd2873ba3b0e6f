// Package certrequest has the values that the requesters of certificates and
// their issuer share: the certificate request, the Secret that a certificate is
// stored in, and the format of the challenges.
//
// A certificate is stored in a Secret of the namespace that requests it, under a
// name derived from the resolver and the hosts. So each side finds it without a
// registry, and equal requests of two objects share one certificate.
//
// It is plain values: it sends no requests and reads no clock.
package certrequest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The labels and annotations of a Secret that the edge created. A Secret without
// them belongs to someone else and is never written, even under the same name.
const (
	// ManagedLabel and ManagedValue are on every Secret that the edge creates.
	ManagedLabel = "app.kubernetes.io/managed-by"
	ManagedValue = "slipway"
	// PurposeLabel is the use of the Secret: a certificate, an account or
	// challenges.
	PurposeLabel       = "slipway.dev/acme"
	PurposeCertificate = "certificate"
	PurposeAccount     = "account"
	PurposeChallenges  = "challenges"
	// ResolverAnnotation and HostsAnnotation are the request that a certificate
	// was issued for; hosts are separated by commas.
	ResolverAnnotation = "slipway.dev/acme-resolver"
	HostsAnnotation    = "slipway.dev/acme-hosts"
)

// Request is a certificate that Ingresses or listeners of one namespace request.
type Request struct {
	Resolver string
	// Hosts are its DNS names, the main one first, each once.
	Hosts []string
	// Secret is where it is stored.
	Secret snapshot.Ref
	// Ready is set while the Secret has a certificate that can be served.
	Ready bool
	// From are the objects that request it, sorted.
	From []Requester
}

// Requester is the field of an Ingress, Gateway or ListenerSet that requests a
// certificate.
type Requester struct {
	Object snapshot.Ref
	Field  string
}

// Compare orders by object, then by field.
func (r Requester) Compare(other Requester) int {
	return cmp.Or(r.Object.Compare(other.Object), strings.Compare(r.Field, other.Field))
}

// SecretName returns the name of the Secret for a certificate. It does not depend
// on the order of the hosts.
func SecretName(resolver string, hosts []string) string {
	sorted := slices.Clone(hosts)
	slices.Sort(sorted)
	// No host and no resolver has a line break in it.
	sum := sha256.Sum256([]byte(resolver + "\n" + strings.Join(sorted, "\n")))
	return "acme-" + hex.EncodeToString(sum[:8])
}

// IssuedFor reports whether a Secret with these labels and annotations was created
// for a resolver and hosts.
func IssuedFor(labels, annotations map[string]string, resolver string, hosts []string) bool {
	if labels[ManagedLabel] != ManagedValue || labels[PurposeLabel] != PurposeCertificate {
		return false
	}
	written := strings.Split(annotations[HostsAnnotation], ",")
	return annotations[ResolverAnnotation] == resolver && SecretName(resolver, written) == SecretName(resolver, hosts)
}
