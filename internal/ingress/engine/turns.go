package engine

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Turned gives the Secrets of the certificates in use that have begun or ceased
// to be valid by now, each once. They are to be part of the next Update, as if
// they had changed: no object says that time has passed.
func (e *Engine) Turned(now time.Time) []snapshot.Ref {
	var turned []snapshot.Ref
	for id, shared := range e.trust.certificates {
		if shared.turns.IsZero() || now.Before(shared.turns) {
			continue
		}
		shared.turns = turnOf(shared.source, now)
		// The edge looks at a certificate when it is told about it.
		shared.turned = true
		e.trust.dirtyCertificates[id] = struct{}{}
		turned = append(turned, snapshot.Ref{Kind: snapshot.Secret, Namespace: id.Namespace, Name: id.Name})
	}
	slices.SortFunc(turned, snapshot.Ref.Compare)
	return turned
}

// turnOf is the next moment at which a certificate begins or ceases to be valid;
// zero when there is none.
func turnOf(certificate *route.Certificate, now time.Time) time.Time {
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
		// It is valid in all of its last second.
		return leaf.NotAfter.Add(time.Second)
	default:
		return time.Time{}
	}
}
