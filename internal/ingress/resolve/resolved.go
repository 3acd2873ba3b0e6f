package resolve

import (
	"time"

	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// The limits of one Ingress. What is beyond them is refused.
const (
	// MaxRules bounds the rules that an Ingress gives: its paths, and a default
	// backend for each host.
	MaxRules = 2000
	// MaxHosts bounds the different hosts of an Ingress, those of spec.tls
	// included.
	MaxHosts = 2000
	// MaxExpressionSteps bounds what the paths of an Ingress that are regular
	// expressions compile to, together. Each step takes memory of all replicas.
	MaxExpressionSteps = 1 << 16
	// MaxRefusals bounds what is reported of one Ingress.
	MaxRefusals = 100
)

// BackendResolver tells about backends. It is asked once for each that an Ingress
// names, in its paths or in its policies.
type BackendResolver interface {
	Summary(id route.BackendID) BackendSummary
}

// BackendSummary is what rules depend on in a backend.
type BackendSummary struct {
	// Closed says why no request may be sent to it; nil when some may.
	Closed *snapshot.Fault
	// Empty is set when it has no endpoint that takes new requests.
	Empty bool
	// Timeouts are what its transport declares. What is zero is not said.
	Timeouts route.Timeouts
}

// ResolvedIngress is an Ingress with everything it names found, or refused.
type ResolvedIngress struct {
	Ingress snapshot.Ref
	// Ours is false for an Ingress that does not exist, or that is another
	// controller's. Nothing else is set then.
	Ours bool
	// Created is when the Ingress was made.
	Created time.Time

	// Hosts are all hosts of the Ingress, of rules, spec.tls and annotations,
	// sorted, each once. A rule without a host adds none.
	Hosts []string
	// Paths are what rules are made of, in the order of the Ingress, with the
	// default backend after them.
	Paths []Path
	// Backends are all that was looked at, sorted, each once.
	Backends []route.BackendID

	EntryPoints []string
	Priority    int32
	// EncryptedOnly is set where plain requests are not to be served.
	EncryptedOnly bool
	// Policies are those of every path, in their order.
	Policies []route.Policy
	// Unrecorded is what is not recorded of the requests.
	Unrecorded route.Unrecorded
	// Timeouts are what the annotations say, before those of a backend.
	Timeouts route.Timeouts
	// AllowEmpty runs the policies before the 503 of a backend without endpoints.
	AllowEmpty bool
	// Closed says why no path may be served; nil when they may.
	Closed *snapshot.Fault

	Certificates []CertificateUse
	Requests     []CertificateRequest
	Handshakes   []HandshakeUse

	// Refusals are everything that is not done as it is written.
	Refusals []snapshot.Refusal
}

// Path is what some requests of an Ingress go to.
type Path struct {
	// Rule and Index are the position in the Ingress, from 0.
	Rule  int
	Index int
	// Host is in the spelling of route.Rule; empty is every host.
	Host  string
	Match route.PathMatch
	// Default marks the default backend: it takes what is left over for the
	// host. It has no match.
	Default bool
	Target  Target
}

// Target is the backend of a path, or why there is none. Closed counts before
// Missing, and that before Empty.
type Target struct {
	Backend route.BackendID
	// Missing says that the Service or its port does not exist.
	Missing *snapshot.Fault
	// Closed says why no request may be sent.
	Closed *snapshot.Fault
	// Empty is set when the backend has no endpoint that takes new requests.
	Empty bool
	// Timeouts are what the backend's transport declares.
	Timeouts route.Timeouts
}

// CertificateUse is a certificate that an Ingress has for some hosts.
type CertificateUse struct {
	// Certificate has no hosts of its own.
	Certificate *route.Certificate
	Hosts       []string
	// Field is the place in the Ingress that names it.
	Field string
}

// CertificateRequest is a certificate that an Ingress wants to have fetched.
type CertificateRequest struct {
	Resolver string
	// Hosts are the names that it is to have, the main one first.
	Hosts []string
	// Secret is the name of the Secret that it is kept in, in the namespace of
	// the Ingress.
	Secret string
	// Field is the place in the Ingress that asks for it.
	Field string
	// Pending is what to tell while it is not there; nil once it is.
	Pending *snapshot.Fault
}

// HandshakeUse are TLS options that an Ingress has for some hosts.
type HandshakeUse struct {
	Conditions reference.TLSConditions
	Hosts      []string
	// Field is the place in the Ingress that names them.
	Field string
	// Closed says why they cannot be had; Conditions are refused then.
	Closed *snapshot.Fault
}
