package annotation

import (
	"strings"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Service is what the annotations of a Service say. The zero value says
// nothing.
type Service struct {
	// Scheme is how endpoints are spoken to.
	Scheme Scheme
	// Transport names the way to the endpoints; nil when not given.
	Transport *Name
	// PassHostHeader sends the client's Host header; nil when not given.
	PassHostHeader *bool
	// Sticky keeps clients at their endpoint; nil when not given.
	Sticky *route.StickyCookie
	// Balancing says which endpoint gets a request. What is zero is not said.
	Balancing route.Balancing
	// HealthCheck asks endpoints whether they work; nil when not given.
	HealthCheck *route.HealthCheck
	// NativeLB sends requests to the address of the Service; nil when not given.
	NativeLB *bool
	// NodePortLB sends requests to the nodes; nil when not given.
	NodePortLB *bool
	// MaxInFlight and MaxInFlightPerEndpoint bound the requests that run at a
	// time; 0 when not given.
	MaxInFlight            int64
	MaxInFlightPerEndpoint int64

	// Closed is set when something is wrong without which no request must be
	// sent to the Service. Its rules answer 503.
	Closed bool
}

// Scheme is how endpoints are spoken to.
type Scheme string

// The schemes. The empty one is not said.
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

// ParseService reads the annotations of a Service, as ParseIngress does those
// of an Ingress.
func ParseService(annotations map[string]string) (*Service, []snapshot.Fault) {
	r := declared().service.read(annotations)
	r.finishCookie()
	r.finishHash()
	r.checkService()
	r.service.Closed = r.closed
	return &r.service, r.faults
}

// finishHash puts the key of a hash beside its method.
func (r *reading) finishHash() {
	method, hash := r.given[&r.service.Balancing.Method], r.given[&r.hash]
	switch {
	case r.service.Balancing.Method == route.BalanceHash && r.hash == nil:
		r.fault(method, snapshot.Invalid, "it needs %sbalance-hash, which says what tells requests apart", ownPrefix)
		r.service.Balancing.Method = ""
	case r.service.Balancing.Method != route.BalanceHash && r.hash != nil:
		r.fault(hash, snapshot.Conflict, "it has a meaning with %sbalance: hash only", ownPrefix)
	case r.hash != nil:
		r.service.Balancing.Hash = route.HashKey{By: route.KeySource(r.hash.By), Name: r.hash.Name}
	}
}

// checkService holds what was read to the rules of the table. What breaks them
// is left out.
func (r *reading) checkService() {
	s := &r.service
	if s.Sticky == nil && s.HealthCheck == nil && s.Balancing == (route.Balancing{}) {
		return
	}
	// Whether the protocol can carry the check is not known here.
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
		fault := &snapshot.Fault{Field: field, Reason: snapshot.Invalid, Message: problem.Message}
		r.add(*fault.At(at.field()))
		r.closed = r.closed || at.key.closes
	}
}
