package resolve

import (
	"strings"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// routerAnnotation is what Traefik's annotations of an Ingress start with.
const routerAnnotation = "traefik.ingress.kubernetes.io/router."

// settings is what the annotations say that later steps need.
type settings struct {
	// matcher is for paths of the type ImplementationSpecific; empty is a prefix.
	matcher route.PathType

	before      []v1alpha1.Filter
	middlewares []objectName
	after       []v1alpha1.Filter

	// handshake names the TLS options; nil when none are named.
	handshake *objectName

	certResolver      string
	certResolverField string
	domains           []domainName
	// together are the domains again, those of one certificate in one list.
	together [][]domainName
}

// objectName is the name of an object as it is written, and where.
type objectName struct {
	kind  snapshot.Kind
	text  string
	field string
}

// domainName is a name that a certificate is wanted for, and where that is
// written.
type domainName struct {
	name  string
	field string
}

// readAnnotations takes over what the annotations say. What cannot be had
// closes the Ingress where serving without it would be wrong.
func (r *resolver) readAnnotations() {
	parsed, faults := annotation.ParseIngress(r.object.Annotations)
	for i := range faults {
		r.refuse(r.resolved.Ingress, &faults[i])
	}
	if parsed.Closed {
		r.closeAll(annotationFault(faults))
	}
	r.resolved.EntryPoints = parsed.EntryPoints
	r.resolved.Priority = parsed.Priority
	r.resolved.EncryptedOnly = parsed.TLS == annotation.TLSOnly
	r.resolved.Timeouts = parsed.Timeouts
	r.settings = settings{
		matcher:           pathTypeOf(parsed.PathMatcher),
		before:            parsed.Before,
		after:             parsed.After,
		certResolver:      parsed.CertResolver,
		certResolverField: annotationField("tls.certresolver"),
	}
	for _, name := range parsed.Middlewares {
		r.settings.middlewares = append(r.settings.middlewares, objectName{name.Kind, name.Name, name.Field})
	}
	if name := parsed.TLSOptions; name != nil {
		r.settings.handshake = &objectName{name.Kind, name.Name, name.Field}
	}
	for _, domain := range parsed.Domains {
		first := len(r.settings.domains)
		r.addDomain(domain.Main, domain.Field)
		for _, name := range domain.SANs {
			r.addDomain(name, domain.Field)
		}
		r.settings.together = append(r.settings.together, r.settings.domains[first:len(r.settings.domains):len(r.settings.domains)])
	}
	r.resolved.Unrecorded = unrecorded(parsed.Observability)
}

func (r *resolver) addDomain(name, field string) {
	if name != "" {
		r.settings.domains = append(r.settings.domains, domainName{name, field})
	}
}

// unrecorded is what the annotations turn off.
func unrecorded(wanted annotation.Observability) route.Unrecorded {
	off := func(wanted *bool) bool { return wanted != nil && !*wanted }
	return route.Unrecorded{AccessLog: off(wanted.AccessLogs), Metrics: off(wanted.Metrics), Tracing: off(wanted.Tracing)}
}

func annotationField(key string) string {
	return "metadata.annotations[" + routerAnnotation + key + "]"
}

func pathTypeOf(matcher annotation.PathMatcher) route.PathType {
	switch matcher {
	case annotation.MatchPath:
		return route.PathExact
	case annotation.MatchPathRegexp:
		return route.PathRegexp
	default:
		return ""
	}
}

// annotationFault is what a closed path says of the annotations.
func annotationFault(faults []snapshot.Fault) *snapshot.Fault {
	fault := &snapshot.Fault{Field: "metadata.annotations", Reason: snapshot.Invalid, Message: "the annotations cannot be used"}
	var messages []string
	for i := range faults {
		if i == 0 {
			fault.Reason = faults[i].Reason
		}
		messages = append(messages, faults[i].Error())
		if i == 2 {
			break
		}
	}
	if len(messages) > 0 {
		fault.Message = shorten(strings.Join(messages, "; "), maxMessage)
	}
	return fault
}
