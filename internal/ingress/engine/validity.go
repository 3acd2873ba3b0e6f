package engine

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ValidityChanged returns the Secrets of the certificates in use that have become
// valid or have expired by now, each once. The caller passes them to the next
// Update as changed objects, because no watch event reports that time has passed.
func (e *Engine) ValidityChanged(now time.Time) []snapshot.Ref {
	var turned []snapshot.Ref
	for id, shared := range e.tls.certificates {
		if shared.validityChangesAt.IsZero() || now.Before(shared.validityChangesAt) {
			continue
		}
		shared.validityChangesAt = nextValidityChange(shared.source, now)
		// The edge checks the validity of a certificate when it gets a change of it.
		shared.validityChanged = true
		e.tls.dirtyCertificates[id] = struct{}{}
		turned = append(turned, snapshot.Ref{Kind: snapshot.Secret, Namespace: id.Namespace, Name: id.Name})
	}
	slices.SortFunc(turned, snapshot.Ref.Compare)
	return turned
}

// nextValidityChange returns the next time at which a certificate becomes valid or
// expires; zero for none.
func nextValidityChange(certificate *route.Certificate, now time.Time) time.Time {
	block, _ := pem.Decode([]byte(certificate.Chain))
	if block == nil {
		return time.Time{}
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return time.Time{}
	case now.Before(leaf.NotBefore):
		return leaf.NotBefore
	case !now.After(leaf.NotAfter):
		// NotAfter is inclusive (RFC 5280, section 4.1.2.5).
		return leaf.NotAfter.Add(time.Second)
	default:
		return time.Time{}
	}
}
