// Package translate says what becomes of an Ingress in the routing table. It is
// pure: the same [resolve.Site] gives the same [Outcome], and nobody is asked.
//
// It promises that every rule it gives is valid, whatever the Ingress says, and
// that fail closed is decided here and nowhere else: a path whose parts cannot
// be had answers 503 and says why, and the others are served.
//
// It refuses nothing of its own but rules that the routing table cannot hold.
package translate

import (
	"time"

	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Outcome is what an Ingress asks of the routing table.
type Outcome struct {
	Rules []*route.Rule
	// Backends are those that the Ingress depends on, sorted, each once: those
	// that its rules name, and those whose state decided what a rule answers.
	Backends []route.BackendID
	// Certificates and Options are claims: of several for one host, whoever
	// knows all Ingresses chooses.
	Certificates []CertificateClaim
	Options      []OptionsClaim
	// Requests are certificates to be fetched, if the Ingress may have them for
	// its hosts.
	Requests []resolve.CertificateRequest
	// Hosts are every host of the Ingress, of rules and of TLS, sorted, each
	// once.
	Hosts    []string
	Refusals []snapshot.Refusal
}

// CertificateClaim asks for a certificate to be shown for some hosts.
type CertificateClaim struct {
	// Certificate has no hosts of its own.
	Certificate *route.Certificate
	Hosts       []string
	Ingress     snapshot.Ref
	Created     time.Time
	// Field is the place in the Ingress that names the certificate.
	Field string
}

// OptionsClaim asks for TLS options for some hosts.
type OptionsClaim struct {
	// Conditions have no hosts of their own. Where Refused is not nil they are
	// refused too, so that the hosts answer 503.
	Conditions reference.TLSConditions
	Hosts      []string
	Ingress    snapshot.Ref
	Created    time.Time
	// Field is the place in the Ingress that names the options.
	Field string
	// Refused says why the options cannot be had; nil when they can.
	Refused *snapshot.Fault
}
