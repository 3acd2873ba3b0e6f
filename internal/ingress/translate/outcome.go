// Package translate makes routing rules of a resolved Ingress. It is pure: the
// same [resolve.ResolvedIngress] gives the same [Outcome], without reads of the
// cluster or the clock.
//
// It promises that every rule is valid, for any Ingress, and that fail closed is
// decided here and nowhere else: a path that depends on something refused returns
// 503 with the reason, and the other paths are served.
//
// It adds no refusals but those of rules that the routing table cannot hold.
package translate

import (
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Outcome is the part of the routing table that an Ingress claims.
type Outcome struct {
	Rules []*route.Rule
	// TCPRoutes are those of a route of Gateway API for connections, which has no rules.
	TCPRoutes []*route.TCPRoute
	// Backends are those that the Ingress depends on, sorted, each once: those of
	// its rules, and those whose state decided the response of a rule.
	Backends []route.BackendID
	// Certificates and Options are claims: the engine, which has all Ingresses,
	// chooses between several for one host.
	Certificates []CertificateClaim
	Options      []OptionsClaim
	// Requests are certificates to be issued, if the hosts belong to the
	// namespace of the Ingress.
	Requests []resolve.CertificateRequest
	// Hosts are all hosts of the Ingress, of rules and of TLS, sorted, each once;
	// empty is that of rules without a host.
	Hosts []string
	// HostsImplied is set if a route of Gateway API names no host, and has those of its
	// listeners: it shares them with others like it, because the Gateway decides who may
	// attach.
	HostsImplied bool
	// Grants let other namespaces have rules for the hosts, if these belong to the
	// namespace of the Ingress.
	Grants []resolve.HostGrant
	// NGINX is what an Ingress of ingress-nginx contributes to its hosts; nil for others.
	NGINX *nginx.Outcome
	// Store has the certificates of a TLSStore, which claims no hosts; nil for others.
	Store    *resolve.CertificateStore
	Refusals []refusal.Refusal
}

// CertificateClaim claims that a certificate is served for some hosts.
type CertificateClaim struct {
	// Certificate has no hosts of its own.
	Certificate *route.Certificate
	Hosts       []string
	Ingress     snapshot.Ref
	Created     time.Time
	// Field is the field of the Ingress that names the certificate.
	Field string
}

// OptionsClaim claims TLS options for some hosts.
type OptionsClaim struct {
	// Conditions have no hosts of their own. With Refused they are refused too, so
	// that the hosts return 503.
	Conditions reference.TLSConditions
	Hosts      []string
	Ingress    snapshot.Ref
	Created    time.Time
	// Field is the field of the Ingress that names the options.
	Field string
	// Refused is why the options cannot be used; nil if they can.
	Refused *refusal.Refusal
}
