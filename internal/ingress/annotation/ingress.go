package annotation

import (
	"maps"
	"slices"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Ingress is what the annotations of an Ingress say. The zero value says
// nothing.
type Ingress struct {
	// EntryPoints are the entry points of the rules; none means all.
	EntryPoints []string
	// Priority orders the rules before everything else; 0 when not given.
	Priority int32
	// PathMatcher is for paths of the type ImplementationSpecific.
	PathMatcher PathMatcher
	// TLS says which schemes are served.
	TLS TLSUse
	// TLSOptions names the conditions of handshakes; nil when not given.
	TLSOptions *Name
	// CertResolver is the name of a resolver that is to get certificates.
	CertResolver string
	// Domains are further names that certificates are wanted for.
	Domains []Domain
	// Observability says what is recorded of the requests.
	Observability Observability
	// Timeouts bound the waits for a backend. What is zero is not said.
	Timeouts route.Timeouts

	// A request passes Before, then Middlewares, then After.
	Before      []v1alpha1.Filter
	Middlewares []Name
	After       []v1alpha1.Filter

	// Closed is set when something is wrong without which the rules of the
	// Ingress must not serve. They answer 503.
	Closed bool
}

// Name is the name of an object as it is written.
type Name struct {
	// Kind is that of the object: one of ours, or one of Traefik's.
	Kind snapshot.Kind
	// Name is name or namespace/name for our kinds, and such as
	// namespace-name@kubernetescrd for Traefik's.
	Name string
	// Field is where it is written, for a Fault.
	Field string
}

// PathMatcher says how paths of the type ImplementationSpecific are compared.
type PathMatcher string

// The path matchers. The empty one leaves it to the options of the edge.
const (
	MatchPath       PathMatcher = "Path"
	MatchPathPrefix PathMatcher = "PathPrefix"
	MatchPathRegexp PathMatcher = "PathRegexp"
)

// TLSUse says which schemes the rules of an Ingress serve.
type TLSUse string

// The uses of TLS. The empty one is not said and means both.
const (
	// TLSBoth serves plain and encrypted requests.
	TLSBoth TLSUse = "both"
	// TLSOnly does not serve plain requests.
	TLSOnly TLSUse = "only"
)

// Domain is a set of names for one certificate.
type Domain struct {
	Main string
	SANs []string
	// Field is where it is written, for a Fault.
	Field string
}

// Observability says what is recorded of requests; nil is not said.
type Observability struct {
	AccessLogs *bool
	Metrics    *bool
	Tracing    *bool
}

// ParseIngress reads the annotations of an Ingress. It always gives an Ingress:
// what has a Fault is left out of it, and closes it where that is needed.
func ParseIngress(annotations map[string]string) (*Ingress, []snapshot.Fault) {
	r := declared().ingress.read(annotations)
	r.finishDomains()
	before, after := filterOrder()
	r.ingress.Before = r.inOrder(before)
	r.ingress.After = r.inOrder(after)
	r.ingress.Middlewares = slices.Concat(r.traefikMiddlewares, r.ownMiddlewares)
	r.ingress.Closed = r.closed
	return &r.ingress, r.faults
}

// finishDomains puts the domains into the order of their numbers.
func (r *reading) finishDomains() {
	for _, number := range slices.Sorted(maps.Keys(r.domains)) {
		domain := r.domains[number]
		at := r.given[&domain.SANs]
		if domain.Main == "" {
			if at.key != nil {
				r.fault(at, snapshot.Invalid, "the domain has no .main: add it")
			}
			continue
		}
		r.ingress.Domains = append(r.ingress.Domains, *domain)
	}
}
