package route

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Validate returns the problems of the backend on its own.
func (b *Backend) Validate() []Problem {
	r := report{subject: b.ID}
	b.check(&r)
	return r.problems
}

// check validates every field. A backend without endpoints is valid: its Service
// may have none at the moment.
func (b *Backend) check(r *report) {
	r.enter("id")
	checkName(r, "name", b.ID.Name)
	checkOptionalName(r, "namespace", b.ID.Namespace)
	checkOptionalName(r, "variant", b.ID.Variant)
	r.leave()
	var seen map[Endpoint]bool
	if len(b.Endpoints) > 1 {
		seen = make(map[Endpoint]bool, len(b.Endpoints))
	}
	for i, endpoint := range b.Endpoints {
		r.enterItem("endpoints", i)
		endpoint.check(r)
		place := Endpoint{Address: endpoint.Address, Host: endpoint.Host, Port: endpoint.Port}
		if seen[place] {
			r.add("", refusal.Duplicate, "the endpoint is listed twice; list it once")
		}
		if seen != nil {
			seen[place] = true
		}
		r.leave()
	}
	b.Transport.check(r)
	b.Balancing.check(r)
	b.Sticky.check(r)
	b.HealthCheck.check(r, b.Transport.Protocol)
	b.Release.check(r)
	checkAtLeast(r, "maxInFlight", b.MaxInFlight, 0)
	checkAtLeast(r, "maxInFlightPerEndpoint", b.MaxInFlightPerEndpoint, 0)
}

// check requires an address or a host name with a port, and not both.
func (e Endpoint) check(r *report) {
	switch {
	case e.Address.IsValid() && (e.Host != "" || e.Port != 0):
		r.add("host", refusal.Conflict, "there is an address too; give an address, or host and port")
	case e.Address.IsValid():
		if e.Address.Port() == 0 {
			r.add("address", refusal.Invalid, "the port is 0; give the port that the endpoint listens at")
		}
	case e.Host == "":
		r.add("address", refusal.Required, "give an address such as 10.0.0.1:8080, or host and port")
	default:
		if strings.HasPrefix(e.Host, "*.") {
			r.add("host", refusal.Invalid, "a wildcard cannot be resolved; give a host name")
		} else {
			checkHost(r, "host", e.Host)
		}
		if e.Port == 0 {
			r.add("port", refusal.Required, "give the port that the endpoint listens at")
		}
	}
	checkOptionalChoice(r, "state", e.State, EndpointReady, EndpointDraining)
	checkOptionalChoice(r, "revision", e.Revision, RevisionStable, RevisionCanary)
	checkOptionalName(r, "zone", e.Zone)
}

// check allows TLS settings only with a protocol over TLS: ignoring them would send
// plain text where encryption was meant.
func (t *Transport) check(r *report) {
	r.enter("transport")
	defer r.leave()
	checkOptionalChoice(r, "protocol", t.Protocol, ProtocolHTTP1, ProtocolH2C, ProtocolTLS, ProtocolH2, ProtocolALPN)
	if t.TLS != nil && !t.Protocol.Encrypted() {
		r.add("tls", refusal.Conflict, "the protocol has no TLS; set it to tls, h2 or alpn, or remove this")
	}
	if t.Host != "" && t.HostOfEndpoint {
		r.add("hostOfEndpoint", refusal.Conflict, "there is a host too; remove one of the two")
	}
	if t.Host != "" && !validHostHeader(t.Host) {
		r.add("host", refusal.Invalid, "%q is not a host", t.Host)
	}
	if t.TLS == nil {
		return
	}
	r.enter("tls")
	if name := t.TLS.ServerName; name != "" {
		if strings.HasPrefix(name, "*.") {
			r.add("serverName", refusal.Invalid, "a wildcard is not the name of a server; give a host name")
		} else {
			checkHost(r, "serverName", name)
		}
	}
	if t.TLS.SkipVerify && t.TLS.SubjectAltNames != "" {
		r.add("subjectAltNames", refusal.Conflict, "nothing is verified; remove one of the two")
	}
	checkText(r, "subjectAltNames", t.TLS.SubjectAltNames)
	if t.TLS.SkipVerify && t.TLS.Authority != (AuthorityID{}) {
		r.add("skipVerify", refusal.Conflict, "the authority would have no effect; remove one of the two")
	}
	r.leave()
}

// check allows a hash key only with the method that uses it.
func (b *Balancing) check(r *report) {
	r.enter("balancing")
	switch b.Method {
	case "", BalanceLeastRequests, BalanceRoundRobin, BalanceLeastTime:
		if b.Hash != (HashKey{}) {
			r.add("hash", refusal.Conflict, "the method is not hash; set it to hash or remove this")
		}
	case BalanceHash:
		r.enter("hash")
		if b.Hash.By == "" || b.Hash.By == KeyAll {
			r.add("by", refusal.Required, "set the source of the key: client, host, path, header or cookie")
		} else {
			b.Hash.check(r)
		}
		r.leave()
	default:
		r.add("method", refusal.Invalid, "%q is none of leastRequests, roundRobin, leastTime, hash", b.Method)
	}
	checkDuration(r, "slowStart", b.SlowStart)
	r.leave()
}

// check requires a name for keys that have one.
func (k HashKey) check(r *report) {
	switch k.By {
	case "", KeyAll, KeyClient, KeyHost, KeyPath:
		if k.Name != "" {
			r.add("name", refusal.Conflict, "only header and cookie have a name; remove it")
		}
	case KeyHeader, KeyCookie:
		checkHeaderName(r, "name", k.Name)
	default:
		r.add("by", refusal.Invalid, "%q is none of all, client, host, path, header, cookie", k.By)
	}
}

// Validate returns the problems of the certificate on its own. It does not parse
// the PEM: the edge does that once, when it loads the certificate.
func (c *Certificate) Validate() []Problem {
	r := report{subject: c.ID}
	checkObjectID(&r, c.ID)
	checkEach(&r, "hosts", c.Hosts, checkHost)
	if c.Chain == "" {
		r.add("chain", refusal.Required, "the certificate is missing; give it as PEM")
	}
	checkText(&r, "chain", c.Chain)
	checkText(&r, "key", c.Key.Reveal())
	if c.Key.IsZero() {
		r.add("key", refusal.Required, "the key is missing; give it as PEM")
	}
	return r.problems
}

// Validate returns the problems of the authority on its own.
func (a *Authority) Validate() []Problem {
	r := report{subject: a.ID}
	checkObjectID(&r, CertificateID(a.ID))
	if a.Bundle == "" {
		r.add("bundle", refusal.Required, "the certificates are missing; give them as PEM")
	}
	checkText(&r, "bundle", a.Bundle)
	return r.problems
}
