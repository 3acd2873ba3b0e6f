package traefik

import (
	"slices"
	"strings"
	"unicode"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ServersTransport converts a ServersTransport. Fields that tune connections are
// accepted without effect: the edge sizes its pools itself.
func ServersTransport(object *snapshot.Resource, source reference.Source) (reference.Transport, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	source = source.In(object.Namespace)
	transport := reference.Transport{HTTP1Only: r.flag("disableHTTP2")}
	tls := route.UpstreamTLS{ServerName: strings.ToLower(r.text("serverName")), SkipVerify: r.flag("insecureSkipVerify")}
	peerURI(r, &tls)
	// SkipVerify is set before, because upstreamAuthority depends on it.
	upstreamAuthority(r, object, source, &transport, &tls)
	upstreamCertificate(r, source, &transport, &tls)
	// Without any TLS option the scheme of the Service alone decides.
	if tls != (route.UpstreamTLS{}) {
		transport.TLS = &tls
	}
	timeouts := r.inner("forwardingTimeouts")
	transport.Timeouts.Connect = route.Duration(timeouts.span("dialTimeout"))
	transport.Timeouts.Header = route.Duration(timeouts.span("responseHeaderTimeout"))
	// These tune idle connections; they do not change any response.
	timeouts.ignore("idleConnTimeout", "readIdleTimeout", "pingTimeout")
	timeouts.rest()
	r.ignore("maxIdleConnsPerHost")
	r.refuse("peerCertSANs", "the certificate of an endpoint is verified by name: set serverName")
	r.refuse("spiffe", "use rootCAs and certificatesSecrets")
	for _, name := range []string{"cipherSuites", "minVersion", "maxVersion"} {
		r.refuse(name, "the edge uses TLS 1.2 and 1.3 with safe suites to endpoints; remove it")
	}
	r.rest()
	if len(found.faults) == 0 {
		checkUpstream(&transport, found)
	}
	if len(found.faults) > 0 {
		return reference.Transport{}, found.faults
	}
	return transport, nil
}

// noProxyProtocol is the advice for settings of the PROXY protocol.
const noProxyProtocol = "the PROXY protocol is not spoken to backends; remove it"

// ServersTransportTCP converts a ServersTransportTCP: how connections to the endpoints of a
// route of connections are made.
func ServersTransportTCP(object *snapshot.Resource, source reference.Source) (reference.Transport, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	source = source.In(object.Namespace)
	transport := reference.Transport{Timeouts: route.Timeouts{Connect: route.Duration(r.span("dialTimeout"))}}
	// Both directions of a connection end on their own, and the system probes idle ones.
	r.ignore("terminationDelay", "dialKeepAlive")
	r.refuse("proxyProtocol", noProxyProtocol)
	encryption := r.inner("tls")
	tls := route.UpstreamTLS{ServerName: strings.ToLower(encryption.text("serverName")), SkipVerify: encryption.flag("insecureSkipVerify")}
	peerURI(encryption, &tls)
	upstreamAuthority(encryption, object, source, &transport, &tls)
	upstreamCertificate(encryption, source, &transport, &tls)
	if tls != (route.UpstreamTLS{}) {
		transport.TLS = &tls
	}
	encryption.refuse("spiffe", "use rootCAs and certificatesSecrets")
	encryption.rest()
	r.rest()
	if len(found.faults) == 0 {
		checkUpstream(&transport, found)
	}
	if len(found.faults) > 0 {
		return reference.Transport{}, found.faults
	}
	return transport, nil
}

// peerURI reads the URI that the certificate of an endpoint must have, in the place of a name.
// As in Traefik the certificate is verified then, whatever insecureSkipVerify is.
func peerURI(r *record, tls *route.UpstreamTLS) {
	uri := r.text("peerCertURI")
	if uri == "" {
		return
	}
	if strings.ContainsFunc(uri, unicode.IsSpace) {
		r.fault("peerCertURI", refusal.Invalid, "%q is no URI: write one such as spiffe://example.org/shop", brief(uri))
		return
	}
	tls.SubjectAltNames, tls.SkipVerify = uri, false
}

// upstreamAuthority reads the CA bundle of endpoints. Several Secrets become
// one authority. It is not needed without verification. References are resolved
// even then, so that a missing Secret is reported.
func upstreamAuthority(r *record, object *snapshot.Resource, source reference.Source, transport *reference.Transport, tls *route.UpstreamTLS) {
	names := r.texts("rootCAsSecrets")
	for _, root := range r.inners("rootCAs") {
		if name := root.text("secret"); name != "" {
			names = append(names, name)
		} else if root.text("configMap") == "" {
			root.fault("secret", refusal.Invalid, "name a Secret with ca.crt")
		}
		root.refuse("configMap", "ConfigMaps are not read: put the bundle into a Secret, under ca.crt, and name it as secret")
		root.rest()
	}
	var bundles []*route.Authority
	for _, name := range names {
		authority, fault := namedAuthority(name, source)
		if fault != nil {
			r.fault("rootCAs", fault.Reason, "%s", fault.Message)
			continue
		}
		if !slices.ContainsFunc(bundles, func(a *route.Authority) bool { return a.ID == authority.ID }) {
			bundles = append(bundles, authority)
		}
	}
	if len(bundles) == 0 || tls.SkipVerify {
		return
	}
	authority := bundles[0]
	// A backend of the table has one authority, so several bundles are joined.
	if len(bundles) > 1 {
		authority = joined(object, bundles)
		if problems := authority.Validate(); len(problems) > 0 {
			r.fault("rootCAs", refusal.Invalid, "several Secrets cannot be put together: %s", problems[0].Message)
			return
		}
	}
	tls.Authority = authority.ID
	transport.Authorities = []*route.Authority{authority}
}

// joined returns one authority of several Secrets. Its name has an underscore, which
// no Secret can have.
func joined(object *snapshot.Resource, bundles []*route.Authority) *route.Authority {
	var text strings.Builder
	for _, bundle := range bundles {
		// A bundle may end without a newline, which would join two PEM blocks
		// into an invalid one.
		text.WriteString(strings.TrimRight(bundle.Bundle, "\n") + "\n")
	}
	return &route.Authority{
		ID:     route.AuthorityID{Namespace: object.Namespace, Name: transportName(object)},
		Bundle: text.String(),
	}
}

// transportName distinguishes the authorities of transports of both kinds.
func transportName(object *snapshot.Resource) string {
	kind, _, _ := strings.Cut(string(object.Kind), ".")
	return kind + "_" + object.Name
}

// upstreamCertificate reads the client certificate for endpoints. Traefik
// chooses among several by the request of the endpoint; the table has room for
// one.
func upstreamCertificate(r *record, source reference.Source, transport *reference.Transport, tls *route.UpstreamTLS) {
	names := r.texts("certificatesSecrets")
	switch {
	case len(names) == 0:
		return
	case len(names) > 1:
		r.fault("certificatesSecrets", refusal.Unsupported, "one certificate can be shown to endpoints: name one Secret")
		return
	case strings.Contains(names[0], "/"):
		r.fault("certificatesSecrets", refusal.Invalid, "%q is no name: name a Secret of the same namespace", brief(names[0]))
		return
	}
	certificate, fault := source.Certificate(names[0])
	if fault != nil {
		r.fault("certificatesSecrets", fault.Reason, "%s", fault.Message)
		return
	}
	if problems := certificate.Validate(); len(problems) > 0 {
		r.fault("certificatesSecrets", refusal.Invalid, "the Secret %s: %s", certificate.ID, problems[0].Message)
		return
	}
	tls.Certificate = certificate.ID
	transport.Certificates = []*route.Certificate{certificate}
}

// checkUpstream validates the transport as part of a backend and reports
// problems under the fields of the object.
func checkUpstream(transport *reference.Transport, found *findings) {
	backend := route.Backend{ID: route.BackendID{Name: "transport"}}
	backend.Transport = route.Transport{Protocol: route.ProtocolTLS, TLS: transport.TLS}
	for _, problem := range backend.Validate() {
		field, _ := strings.CutPrefix(problem.Field, "transport.tls.")
		found.add("spec."+field, reference.RefusalOf(problem, "").Reason, "%s", problem.Message)
	}
}
