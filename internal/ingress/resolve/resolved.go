package resolve

import (
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// The limits of one Ingress. Anything beyond them is refused.
const (
	// MaxRules bounds the rules of an Ingress: its paths, and a default backend
	// for each host.
	MaxRules = 2000
	// MaxHosts bounds the different hosts of an Ingress, those of spec.tls
	// included.
	MaxHosts = 2000
	// MaxExpressionSteps bounds the compiled size of all regular expressions of
	// an Ingress together. Each step takes memory in all replicas.
	MaxExpressionSteps = 1 << 16
	// MaxRefusals bounds the refusals that are reported of one Ingress.
	MaxRefusals = 100
)

// BackendResolver resolves backends. It is called once for each backend that an
// Ingress names, in its paths or in its policies.
type BackendResolver interface {
	Summary(id route.BackendID) BackendSummary
}

// HostOwners is what a BackendResolver has, too, if it knows which namespace a host belongs
// to. Who reads the Ingresses of a host is resolved again when its owner changes.
type HostOwners interface {
	// HostOwner returns the namespace, empty if the host has none yet.
	HostOwner(host string) string
}

// BackendSummary is the part of a backend that rules depend on. Endpoints are not
// part of it, so that their changes do not reach the rules.
type BackendSummary struct {
	// Closed is why no request may be sent to it; nil if requests may.
	Closed *refusal.Refusal
	// Empty is set if it has no endpoint for new requests.
	Empty bool
	// Timeouts are those of its transport; zero means not declared.
	Timeouts route.Timeouts
}

// ResolvedIngress is an Ingress with each reference found or refused.
type ResolvedIngress struct {
	Ingress snapshot.Ref
	// Ours is false for an Ingress that does not exist or belongs to another
	// controller. Nothing else is set then.
	Ours bool
	// Created is the creation time of the Ingress.
	Created time.Time

	// Hosts are all hosts of the Ingress, of rules, spec.tls and annotations,
	// sorted, each once. A rule without a host adds the empty one.
	Hosts []string
	// Grants let other namespaces have rules for the hosts.
	Grants []HostGrant
	// Paths become the rules, in the order of the Ingress, followed by the default
	// backend.
	Paths []Path
	// Streams are the routes of connections, which have no paths.
	Streams []Stream
	// Backends are all resolved backends, sorted, each once.
	Backends []route.BackendID

	EntryPoints []string
	Priority    int32
	// EncryptedOnly is set if plain HTTP is not served.
	EncryptedOnly bool
	// Policies apply to every path, in this order.
	Policies []route.Policy
	// Unrecorded is the telemetry that is disabled.
	Unrecorded route.Unrecorded
	// Timeouts are those of the annotations; they win over those of a backend.
	Timeouts route.Timeouts
	// AllowEmpty runs the policies before the 503 of a backend without endpoints.
	AllowEmpty bool
	// Closed is why no path may be served; nil if they may.
	Closed *refusal.Refusal

	Certificates []CertificateUse
	Requests     []CertificateRequest
	Handshakes   []HandshakeUse

	// Store has the certificates of a TLSStore; nil for other objects.
	Store *CertificateStore

	// NGINX is what an Ingress of ingress-nginx contributes to its hosts, without the
	// locations, which are those of the paths; nil for others.
	NGINX *nginx.Outcome

	// Refusals are the parts of the Ingress, and of objects that it names, that are
	// not served as written.
	Refusals []refusal.Refusal
}

// Path is one path of an Ingress with its backend, or its default backend.
type Path struct {
	// Rule and Index are the position in the Ingress, from 0.
	Rule  int
	Index int
	// Host is in the canonical form of route.Rule; empty means every host.
	Host  string
	Match route.PathMatch
	// Default marks the default backend, which takes the requests of the host that
	// match no path. It has no match.
	Default bool
	Target  Target

	// Variant distinguishes rules of one path for several hosts.
	Variant string
	// Policies come after those of the Ingress, and Rewrite after both.
	Policies []route.Policy
	Rewrite  *route.Rewrite
	// Directives are those of a snippet of ingress-nginx; nil for none.
	Directives *route.Directives
	// Response takes the place of the backend; nil for none.
	Response *route.Response
	// Location is set for an Ingress of ingress-nginx.
	Location *nginx.Location
	// Route is set for a route of Traefik, of which Match is the path alone.
	Route *RouteMatch
}

// RouteMatch is what a route of Traefik has besides a path and a target.
type RouteMatch struct {
	Match      route.Match
	Priority   int32
	Policies   []route.Policy
	Unrecorded route.Unrecorded
	// Shares are the targets if there are several of which one can be used.
	Shares []Share
	// Sticky keeps a client at the target that it got first.
	Sticky *route.StickyCookie
	// Response takes the place of targets; nil for none.
	Response *route.Response
}

// Share is a target with its share of the requests.
type Share struct {
	Target Target
	Weight uint32
	// Fallback gets the requests of the others while they have no healthy endpoint.
	Fallback bool
}

// Target is the backend of a path, or why there is none. Closed takes precedence
// over Missing, and that over Empty.
type Target struct {
	Backend route.BackendID
	// Missing is set if the Service or its port does not exist.
	Missing *refusal.Refusal
	// Closed is why no request may be sent.
	Closed *refusal.Refusal
	// Empty is set if the backend has no endpoint for new requests.
	Empty bool
	// Timeouts are those of the backend's transport.
	Timeouts route.Timeouts
}

// CertificateUse is a certificate that an Ingress names for some hosts.
type CertificateUse struct {
	// Certificate has no hosts of its own.
	Certificate *route.Certificate
	Hosts       []string
	// Field is the field of the Ingress that names it.
	Field string
}

// CertificateRequest is a certificate that an Ingress requests from a resolver.
type CertificateRequest struct {
	Resolver string
	// Hosts are its DNS names, the main one first.
	Hosts []string
	// Secret is the name of its Secret, in the namespace of the Ingress.
	Secret string
	// Field is the field of the Ingress that requests it.
	Field string
	// Pending is the fault to report while it is not issued; nil once it is.
	Pending *refusal.Refusal
}

// HandshakeUse are TLS options that an Ingress names for some hosts.
type HandshakeUse struct {
	Conditions reference.TLSConditions
	Hosts      []string
	// Field is the field of the Ingress that names them.
	Field string
	// Closed is why they cannot be used; Conditions are refused then.
	Closed *refusal.Refusal
}
