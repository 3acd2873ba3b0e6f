package traefik

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// outsideHint is the advice for a server that is not a Service.
const outsideHint = "write http://SERVICE.NAMESPACE.svc:PORT/PATH; for a server outside of the cluster, make a Service of type ExternalName and name that"

// authAddress reads the address of the authentication server. It has to be a Service:
// a policy must not send the edge to an arbitrary address (SSRF).
func (s *step) authAddress(r *record, auth *route.ForwardAuth) {
	address := r.text("address")
	parsed, err := url.Parse(address)
	if err != nil || address == "" || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Opaque != "" || parsed.Host == "" {
		r.fault("address", refusal.Invalid, "%q is not an http or https URL: %s", brief(address), outsideHint)
		return
	}
	switch {
	// Credentials in a spec would end up in the table and its dumps.
	case parsed.User != nil:
		r.fault("address", refusal.Unsupported, "it has a user: let the server recognise the edge in another way")
		return
	case parsed.Fragment != "":
		r.fault("address", refusal.Unsupported, "the part behind # is never sent: remove it")
		return
	}
	name, found := serviceName(strings.TrimSuffix(strings.ToLower(parsed.Hostname()), "."))
	if !found {
		r.fault("address", refusal.Unsupported, "%q is not the name of a Service: %s", brief(parsed.Host), outsideHint)
		return
	}
	// The port must be one of the Service; the default is that of the scheme.
	port := networkingv1.ServiceBackendPort{Number: 80}
	if parsed.Scheme == "https" {
		port.Number = 443
	}
	if text := parsed.Port(); text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 {
			r.fault("address", refusal.Invalid, "%q is no port", brief(text))
			return
		}
		port.Number = int32(number)
	}
	backend, fault := s.source.Backend(name, port)
	if fault != nil {
		r.fault("address", fault.Reason, "%s; %s", fault.Message, outsideHint)
		return
	}
	s.wantScheme(r, "address", parsed.Scheme, backend)
	// The Host header stays the one in the address: the server may route by it.
	auth.Backend, auth.Host = backend, parsed.Host
	auth.Path, auth.Query = rooted(parsed.EscapedPath()), parsed.RawQuery
}

// serviceName returns the Service of a cluster host name, as name or
// namespace/name. A single label is a Service of the own namespace. Host names
// with other suffixes are outside of the cluster.
func serviceName(host string) (name string, found bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return "", false
	}
	host = strings.TrimSuffix(host, ".cluster.local")
	host, full := strings.CutSuffix(host, ".svc")
	labels := strings.Split(host, ".")
	// Labels of a Service and of a namespace have the same form.
	for _, label := range labels {
		if !validNamespace(label) {
			return "", false
		}
	}
	switch {
	case len(labels) == 1 && !full:
		return labels[0], true
	case len(labels) == 2:
		return labels[1] + "/" + labels[0], true
	}
	return "", false
}

// wantScheme refuses a scheme that differs from that of the Service. The Service
// decides, because its backend is shared by all that refer to it.
func (s *step) wantScheme(r *record, field, scheme string, backend route.BackendID) {
	service := s.source.View.Service(backend.Namespace, backend.Name)
	// A missing Service is a fault of its own already.
	if service == nil {
		return
	}
	encrypted := speaksTLS(service, backend.Port)
	switch {
	case scheme == "" || scheme == "http" && !encrypted || scheme == "https" && encrypted:
	case scheme == "https":
		r.fault(field, refusal.Unsupported, "it requires https, and connections to the Service %s/%s are not encrypted: set its annotation %s to https",
			backend.Namespace, backend.Name, schemeAnnotation)
	case scheme == "http":
		r.fault(field, refusal.Unsupported, "it requires http, and connections to the Service %s/%s are encrypted: write https",
			backend.Namespace, backend.Name)
	default:
		r.fault(field, refusal.Unsupported, "%q is neither http nor https: set the annotation %s of the Service", brief(scheme), schemeAnnotation)
	}
}

// schemeAnnotation is the annotation that faults advise to set.
const schemeAnnotation = "traefik.ingress.kubernetes.io/service.serversscheme"

// speaksTLS reports whether a port of a Service uses TLS, by its annotation,
// its appProtocol, or its number and name. The order is that of package
// backend, which decides for the real connections.
func speaksTLS(service *snapshot.ServiceFacts, number uint16) bool {
	// Faults of the annotations close the backend, and so the policy.
	settings, _ := annotation.ParseService(service.Annotations)
	switch settings.Scheme {
	case "":
	case annotation.SchemeHTTPS, annotation.SchemeH2, annotation.SchemeALPN:
		return true
	default:
		return false
	}
	for i := range service.Spec.Ports {
		// The same number may occur for TCP and UDP; only TCP carries requests.
		port := &service.Spec.Ports[i]
		if port.Port != int32(number) || port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
			continue
		}
		if port.AppProtocol != nil {
			switch strings.ToLower(*port.AppProtocol) {
			case "https", "grpcs", "kubernetes.io/wss":
				return true
			case "http", "grpc", "kubernetes.io/h2c", "kubernetes.io/ws":
				return false
			}
		}
		return port.Port == 443 || strings.HasPrefix(port.Name, "https")
	}
	return false
}

// service returns the backend of a reference in the form of Traefik's routes. Its
// protocol and balancing are those of the Service.
func (s *step) service(r *record) (route.BackendID, bool) {
	name, namespace, port := r.text("name"), r.text("namespace"), r.textOrNumber("port")
	scheme := r.text("scheme")
	if kind := r.text("kind"); kind != "" && kind != "Service" {
		r.fault("kind", refusal.Unsupported, "%q is not supported: name a Service", brief(kind))
		return route.BackendID{}, false
	}
	// With one Service the weight has no effect.
	r.ignore("weight")
	if pass, present := r.take("passHostHeader"); present && !r.flag("passHostHeader") && pass == false {
		r.fault("passHostHeader", refusal.Unsupported, "set service.passhostheader of the Service to false instead")
	}
	if strategy := r.text("strategy"); strategy != "" && strategy != "RoundRobin" && strategy != "wrr" {
		r.fault("strategy", refusal.Unsupported, "set the annotation slipway.dev/balance of the Service instead")
	}
	// These are settings of the backend, and a backend is shared by all rules
	// that use the Service.
	for _, field := range []string{
		"sticky", "serversTransport", "nativeLB", "nodePortLB", "healthCheck", "passiveHealthCheck", "responseForwarding", "middlewares",
	} {
		r.refuse(field, "use annotations of the Service")
	}
	r.rest()
	if namespace != "" {
		name = namespace + "/" + name
	}
	wanted := networkingv1.ServiceBackendPort{Name: port}
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		wanted = networkingv1.ServiceBackendPort{Number: int32(number)}
	}
	backend, fault := s.source.Backend(name, wanted)
	if fault != nil {
		r.fault("name", fault.Reason, "%s", fault.Message)
		return route.BackendID{}, false
	}
	s.wantScheme(r, "scheme", scheme, backend)
	return backend, true
}
