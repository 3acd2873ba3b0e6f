package resolve

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// routerAnnotation is the prefix of Traefik's annotations of an Ingress.
const routerAnnotation = "traefik.ingress.kubernetes.io/router."

// settings are the values of annotations that later steps need.
type settings struct {
	// matcher is for paths of the type ImplementationSpecific; empty means prefix.
	matcher route.PathType
	// routerPriority is on Traefik's scale; 0 for none.
	routerPriority int32

	before      []v1alpha1.Filter
	middlewares []objectName
	after       []v1alpha1.Filter

	// handshake names the TLS options; nil for the defaults.
	handshake *objectName

	certResolver      string
	certResolverField string
	domains           []domainName
	// together are the same domains grouped by certificate.
	together [][]domainName
}

// objectName is a reference to an object as it is written, and its field.
type objectName struct {
	kind  snapshot.Kind
	text  string
	field string
}

// domainName is a DNS name that a certificate is requested for, and its field.
type domainName struct {
	name  string
	field string
}

// readAnnotations parses the annotations. A fault in one that restricts requests
// closes the Ingress: serving without it would fail open.
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
	r.readGrants(parsed.HostGrants)
	r.resolved.EncryptedOnly = parsed.TLS == annotation.TLSOnly
	tlsField := annotationField("tls")
	if _, own := r.object.Annotations["slipway.dev/tls"]; own {
		tlsField = "metadata.annotations[slipway.dev/tls]"
	}
	r.checkEncryption(tlsField)
	r.resolved.Timeouts = parsed.Timeouts
	r.settings = settings{
		matcher:           pathTypeOf(parsed.PathMatcher),
		routerPriority:    parsed.RouterPriority,
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

// checkEncryption refuses TLS on entry points without TLS. The rules would wait for
// encrypted requests that cannot come: handshakes fail there before a rule counts.
// An entry point that the options do not have may be one of another edge.
func (r *resolver) checkEncryption(field string) {
	if !r.resolved.EncryptedOnly {
		return
	}
	names := r.resolved.EntryPoints
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(r.options.EntryPoints))
	}
	for _, name := range names {
		if encrypted, known := r.options.EntryPoints[name]; encrypted || !known {
			return
		}
	}
	if len(names) == 0 {
		return
	}
	r.refuseHere(field, refusal.Invalid,
		"only requests over TLS are served, and the entry point %s has no TLS, so no client gets a response: set entryPoints.%s.http.tls=true, or name an entry point that has it",
		strings.Join(names, ", "), names[0])
}

func (r *resolver) addDomain(name, field string) {
	if name != "" {
		r.settings.domains = append(r.settings.domains, domainName{name, field})
	}
}

// unrecorded returns the telemetry that the annotations disable.
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

// annotationFault returns one fault for a closed Ingress, made of the first three
// faults of its annotations.
func annotationFault(faults []refusal.Refusal) *refusal.Refusal {
	fault := refusal.New("metadata.annotations", refusal.Invalid, "the annotations cannot be used")
	if len(faults) > 0 {
		fault.Reason, fault.Message = faults[0].Reason, refusal.Shorten(refusal.Summary(faults[:min(3, len(faults))]), maxMessage)
	}
	return fault
}
