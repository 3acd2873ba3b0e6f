package annotation

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// Service has the parsed annotations of a Service. The zero value is that of none.
type Service struct {
	// Scheme selects the protocol of endpoints.
	Scheme Scheme
	// Transport refers to a transport; nil if not set.
	Transport *Name
	// PassHostHeader forwards the client's Host header; nil if not set.
	PassHostHeader *bool
	// Sticky keeps clients at their endpoint; nil if not set.
	Sticky *route.StickyCookie
	// Balancing selects the endpoint of a request; zero means not set.
	Balancing route.Balancing
	// HealthCheck probes endpoints; nil if not set.
	HealthCheck *route.HealthCheck
	// NativeLB sends requests to the address of the Service; nil when not given.
	NativeLB *bool
	// NodePortLB sends requests to the nodes; nil when not given.
	NodePortLB *bool
	// MaxInFlight and MaxInFlightPerEndpoint bound the requests that run at a
	// time; 0 when not given.
	MaxInFlight            int64
	MaxInFlightPerEndpoint int64

	// Closed is set for a fault in an annotation that requests depend on. Rules
	// with the Service return 503.
	Closed bool
}

// Scheme selects the protocol of endpoints.
type Scheme string

// The schemes. The empty one means not set.
const (
	SchemeHTTP Scheme = "http"
	// SchemeHTTPS leaves the version of HTTP to the edge.
	SchemeHTTPS Scheme = "https"
	SchemeH2C   Scheme = "h2c"
	// SchemeH2 is HTTP/2 over TLS and nothing else.
	SchemeH2 Scheme = "h2"
	// SchemeALPN is HTTP/2 or HTTP/1.1 over TLS, as the endpoint chooses.
	SchemeALPN Scheme = "alpn"
)

// ParseService parses the annotations of a Service, as ParseIngress those of an
// Ingress. Cookie and hash are merged before checkService, which validates the
// complete settings.
func ParseService(annotations map[string]string) (*Service, []refusal.Refusal) {
	r := declared().service.read(annotations)
	r.finishCookie()
	r.finishHash()
	r.checkService()
	r.service.Closed = r.closed
	return &r.service, r.faults
}

// finishHash combines balance and balance-hash. Each is a fault without the
// other: a hash without a key has no input, and a key without hash has no
// effect.
func (r *reading) finishHash() {
	method, hash := r.given[&r.service.Balancing.Method], r.given[&r.hash]
	switch {
	case r.service.Balancing.Method == route.BalanceHash && r.hash == nil:
		r.fault(method, refusal.Invalid, "it requires %sbalance-hash, the attribute that requests are hashed by", ownPrefix)
		r.service.Balancing.Method = ""
	case r.service.Balancing.Method != route.BalanceHash && r.hash != nil:
		r.fault(hash, refusal.Conflict, "it works only with %sbalance: hash", ownPrefix)
	case r.hash != nil:
		r.service.Balancing.Hash = route.HashKey{By: route.KeySource(r.hash.By), Name: r.hash.Name}
	}
}

// checkService validates the settings with the rules of the routing table and
// drops invalid ones, so that the fault is reported on the annotation instead
// of later on every rule with this Service.
func (r *reading) checkService() {
	s := &r.service
	if s.Sticky == nil && s.HealthCheck == nil && s.Balancing == (route.Balancing{}) {
		return
	}
	// The protocol is not resolved yet. ALPN permits all checks; the backend
	// package validates again with the real protocol.
	backend := route.Backend{
		ID: route.BackendID{Name: "service"}, Transport: route.Transport{Protocol: route.ProtocolALPN},
		Balancing: s.Balancing, Sticky: s.Sticky, HealthCheck: s.HealthCheck,
	}
	for _, problem := range backend.Validate() {
		part, field, _ := strings.Cut(problem.Field, ".")
		var at place
		switch part {
		case "sticky":
			at = r.given[&s.Sticky]
			s.Sticky = nil
		case "healthCheck":
			at = r.given[&s.HealthCheck]
			s.HealthCheck = nil
		// Everything else is balancing. The fault goes to the key of the hash
		// if there is one, because the method itself is an enumeration and
		// always valid.
		default:
			at = r.given[&r.hash]
			if at.key == nil {
				at = r.given[&s.Balancing.Method]
			}
			field = ""
			s.Balancing = route.Balancing{}
		}
		if at.key == nil {
			continue
		}
		fault := &refusal.Refusal{Field: field, Reason: refusal.Invalid, Message: problem.Message}
		r.add(fault.At(at.field()))
		r.closed = r.closed || at.key.closes
	}
}
