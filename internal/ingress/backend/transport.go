package backend

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

// setTransport sets protocol, TLS and timeouts of the backend.
func (b *builder) setTransport() *refusal.Refusal {
	set, fault := b.applyTLSPolicy()
	switch {
	case set || fault != nil:
	case b.variant == TCPVariant || b.variant == TLSVariant || b.variant == UDPVariant:
		b.result.Backend.Transport = route.Transport{Protocol: route.ProtocolHTTP1} // bytes without TLS
	default:
		fault = b.setOwnTransport()
	}
	if fault == nil {
		fault = b.addCertificate()
	}
	if fault != nil {
		return fault
	}
	return b.checkDeclared()
}

// setOwnTransport sets the transport that the Service describes.
func (b *builder) setOwnTransport() *refusal.Refusal {
	protocol, fault := b.protocol()
	if fault != nil {
		return fault
	}
	declared, fault := b.declared()
	if fault != nil {
		return fault
	}
	if declared.HTTP1Only {
		switch protocol {
		case route.ProtocolALPN:
			protocol = route.ProtocolTLS
		case route.ProtocolH2:
			return b.transportFault(refusal.Conflict, "it turns HTTP/2 off, and the endpoints are to be spoken to by HTTP/2 only: use the scheme https, or another transport")
		}
	}
	verified, fault := b.upstreamTLS(protocol, declared.TLS)
	if fault != nil {
		return fault
	}
	passHost := !b.options.DisablePassHost
	if b.settings.PassHostHeader != nil {
		passHost = *b.settings.PassHostHeader
	}
	b.result.Backend.Transport = route.Transport{Protocol: protocol, TLS: verified, HostOfEndpoint: !passHost}
	b.result.Timeouts = declared.Timeouts
	b.result.Authorities, b.result.Certificates = declared.Authorities, declared.Certificates
	return nil
}

// protocol returns the protocol of the endpoints, see the package comment.
func (b *builder) protocol() (route.Protocol, *refusal.Refusal) {
	if scheme := b.settings.Scheme; scheme != "" {
		protocol, known := protocolOfScheme(scheme)
		if !known {
			return "", refusal.New(b.field(inScheme), refusal.Invalid, "%q is none of http, https, h2c, h2, alpn", shorten(string(scheme)))
		}
		return protocol, nil
	}
	protocol, known := protocolOfApp(text(b.port.AppProtocol))
	switch {
	case b.variant == GRPCVariant && protocol.Encrypted():
		return route.ProtocolH2, nil
	case b.variant == GRPCVariant:
		return route.ProtocolH2C, nil
	case known:
		return protocol, nil
	}
	if b.variant == RouteVariant {
		return route.ProtocolHTTP1, nil
	}
	if b.port.Port == 443 || strings.HasPrefix(b.port.Name, "https") {
		return route.ProtocolTLS, nil
	}
	return route.ProtocolHTTP1, nil
}

func protocolOfScheme(scheme annotation.Scheme) (route.Protocol, bool) {
	switch scheme {
	case annotation.SchemeHTTP:
		return route.ProtocolHTTP1, true
	case annotation.SchemeHTTPS:
		return route.ProtocolTLS, true
	case annotation.SchemeH2C:
		return route.ProtocolH2C, true
	case annotation.SchemeH2:
		return route.ProtocolH2, true
	case annotation.SchemeALPN:
		return route.ProtocolALPN, true
	}
	return "", false
}

func protocolOfApp(word string) (route.Protocol, bool) {
	switch strings.ToLower(word) {
	case "http", "kubernetes.io/ws":
		return route.ProtocolHTTP1, true
	case "https", "kubernetes.io/wss":
		return route.ProtocolTLS, true
	case "kubernetes.io/h2c", "grpc":
		return route.ProtocolH2C, true
	case "grpcs":
		return route.ProtocolH2, true
	}
	return "", false
}

// upstreamTLS returns the TLS settings of a protocol that needs them, with defaults
// for name and authorities.
func (b *builder) upstreamTLS(protocol route.Protocol, declared *route.UpstreamTLS) (*route.UpstreamTLS, *refusal.Refusal) {
	var verified route.UpstreamTLS
	if declared != nil {
		verified = *declared
	}
	if !protocol.Encrypted() {
		// Disabled verification has no effect without TLS. Other settings would be
		// lost silently, so they are refused.
		if verified != (route.UpstreamTLS{}) && verified != (route.UpstreamTLS{SkipVerify: true}) {
			return nil, b.transportFault(refusal.Conflict, "it configures how the endpoints are verified, and connections to them are not encrypted: set slipway.dev/scheme to https, or use another transport")
		}
		return nil, nil
	}
	switch {
	case verified.ServerName != "" || verified.SkipVerify:
	case b.external.set():
		verified.ServerName = b.external.endpoint.Host
	default:
		verified.ServerName = b.service.Name + "." + b.service.Namespace + ".svc"
	}
	if verified == (route.UpstreamTLS{}) {
		return nil, nil
	}
	return &verified, nil
}

// declared resolves the transport that the Service names.
func (b *builder) declared() (reference.Transport, *refusal.Refusal) {
	name := b.settings.Transport
	if name == nil {
		return b.nginxTransport()
	}
	source := reference.Source{View: b.view, Namespace: b.service.Namespace, CrossNamespace: b.options.CrossNamespace, OldGroup: b.options.OldGroup}
	object, fault := findTransport(name, source)
	if fault != nil {
		return reference.Transport{}, fault.At(b.field(inTransport))
	}
	read := policy.Transport
	switch name.Kind {
	case snapshot.TraefikServersTransport:
		read = traefik.ServersTransport
	case snapshot.TraefikServersTransportTCP:
		read = traefik.ServersTransportTCP
	}
	declared, faults := read(object, source.In(object.Namespace))
	if len(faults) == 0 {
		return declared, nil
	}
	ref := snapshot.Ref{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
	for i := range faults {
		b.refuseOn(ref, &faults[i])
	}
	return reference.Transport{}, refusal.New(b.field(inTransport), faults[0].Reason, "the %s cannot be used: %s", ref, faults[0].Text())
}

// findTransport returns the transport of a reference. One in Traefik's form is
// ambiguous, and resolves only if exactly one candidate exists.
func findTransport(name *annotation.Name, source reference.Source) (*snapshot.Resource, *refusal.Refusal) {
	if !snapshot.IsTraefik(name.Kind) {
		return source.Resource(name.Kind, name.Name)
	}
	candidates, fault := traefik.Candidates(name.Name, source.Namespace)
	if fault != nil {
		return nil, fault
	}
	var found *snapshot.Resource
	for _, candidate := range candidates {
		if candidate.Namespace != source.Namespace && !source.CrossNamespace && fault != nil {
			continue // the fault of the candidate in the own namespace is reported
		}
		object, problem := source.Resource(name.Kind, candidate.Namespace+"/"+candidate.Name)
		switch {
		case problem != nil && fault == nil:
			fault = problem
		case problem != nil:
		case found != nil:
			return nil, refusal.New("", refusal.Conflict,
				"%s can mean %s/%s and %s/%s: rename one of them", name.Name, found.Namespace, found.Name, object.Namespace, object.Name)
		default:
			found = object
		}
	}
	switch {
	case found != nil:
		return found, nil
	case fault != nil:
		return nil, fault
	}
	return nil, refusal.New("", refusal.Invalid, "%q is no name of a transport", shorten(name.Name))
}

// transportFault returns a fault of the annotation that names the transport.
func (b *builder) transportFault(reason refusal.Reason, message string) *refusal.Refusal {
	return &refusal.Refusal{Field: b.field(inTransport), Reason: reason, Message: message}
}

// checkDeclared closes the backend if its transport is invalid in the routing table:
// the edge would drop it without an Event on an object.
func (b *builder) checkDeclared() *refusal.Refusal {
	if fault := b.faultOf(&route.Backend{ID: b.result.Backend.ID, Transport: b.result.Backend.Transport}, inTransport); fault != nil {
		return fault
	}
	for _, authority := range b.result.Authorities {
		if problems := authority.Validate(); len(problems) > 0 {
			return b.transportFault(refusal.Invalid, problems[0].String())
		}
	}
	for _, certificate := range b.result.Certificates {
		if problems := certificate.Validate(); len(problems) > 0 {
			return b.transportFault(refusal.Invalid, problems[0].String())
		}
	}
	timeouts := b.result.Timeouts
	if min(timeouts.Connect, timeouts.Header, timeouts.Idle, timeouts.Total) < 0 {
		return b.transportFault(refusal.Invalid, "a timeout is negative: leave it out for the default")
	}
	return nil
}
