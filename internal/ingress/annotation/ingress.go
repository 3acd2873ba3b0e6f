package annotation

import (
	"maps"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Ingress has the parsed annotations of an Ingress. The zero value is that of none.
type Ingress struct {
	// EntryPoints are the entry points of the rules; none means all.
	EntryPoints []string
	// Priority orders the rules before everything else; 0 if not set.
	Priority int32
	// RouterPriority is a priority on Traefik's scale, where a rule without one has
	// the length of its text; 0 if not set.
	RouterPriority int32
	// HostGrants are the namespaces that may have rules for the hosts of the
	// Ingress.
	HostGrants []HostGrant
	// PathMatcher is for paths of the type ImplementationSpecific.
	PathMatcher PathMatcher
	// TLS selects the schemes that are served.
	TLS TLSUse
	// TLSOptions refers to TLS options; nil if not set.
	TLSOptions *Name
	// CertResolver is the resolver that certificates are requested from.
	CertResolver string
	// Domains are the names that certificates are requested for.
	Domains []Domain
	// Observability selects the telemetry of the requests.
	Observability Observability
	// Timeouts bound the waits for a backend; zero means not set.
	Timeouts route.Timeouts

	// A request passes Before, then Middlewares, then After.
	Before      []v1alpha1.Filter
	Middlewares []Name
	After       []v1alpha1.Filter

	// Closed is set for a fault in an annotation that the rules must not be served
	// without. They return 503.
	Closed bool
}

// Name is a reference to an object as it is written.
type Name struct {
	// Kind is that of the object: one of ours, or one of Traefik's.
	Kind snapshot.Kind
	// Name is name or namespace/name for our kinds, and such as
	// namespace-name@kubernetescrd for Traefik's.
	Name string
	// Field is its field, for a Refusal.
	Field string
}

// PathMatcher selects how paths of the type ImplementationSpecific are matched.
type PathMatcher string

// The path matchers. The empty one leaves it to the options of the edge.
const (
	MatchPath       PathMatcher = "Path"
	MatchPathPrefix PathMatcher = "PathPrefix"
	MatchPathRegexp PathMatcher = "PathRegexp"
)

// TLSUse selects the schemes that the rules of an Ingress serve.
type TLSUse string

// The uses of TLS. The empty one means not set, and so both.
const (
	// TLSBoth serves plain and encrypted requests.
	TLSBoth TLSUse = "both"
	// TLSOnly does not serve plain requests.
	TLSOnly TLSUse = "only"
)

// Domain is a set of names for one certificate.
type Domain struct {
	// Main is the main name of the certificate; a domain without one is a
	// Refusal.
	Main string
	SANs []string
	// Field is its field, for a Refusal.
	Field string
}

// Observability selects telemetry; nil means not set.
type Observability struct {
	AccessLogs *bool
	Metrics    *bool
	Tracing    *bool
}

// ParseIngress parses the annotations of an Ingress. It always returns an Ingress: a
// setting with a Refusal is left out, and closes it if it restricts requests.
func ParseIngress(annotations map[string]string) (*Ingress, []refusal.Refusal) {
	r := declared().ingress.read(annotations)
	r.finishDomains()
	before, after := filterOrder()
	r.ingress.Before = r.inOrder(before)
	r.ingress.After = r.inOrder(after)
	// The reference page documents this order, so Ingresses depend on it.
	r.ingress.Middlewares = slices.Concat(r.traefikMiddlewares, r.ownMiddlewares)
	r.ingress.Closed = r.closed
	return &r.ingress, r.faults
}

// finishDomains adds the domains in the order of their numbers. It runs after
// all annotations are read, because main and sans of a domain are separate
// keys.
func (r *reading) finishDomains() {
	for _, number := range slices.Sorted(maps.Keys(r.domains)) {
		domain := r.domains[number]
		at := r.given[&domain.SANs]
		// Without SANs the main name had a fault of its own: two spellings of
		// its key that differ.
		if domain.Main == "" {
			if at.key != nil {
				r.fault(at, refusal.Invalid, "the domain has no .main: add it")
			}
			continue
		}
		r.ingress.Domains = append(r.ingress.Domains, *domain)
	}
}
