package traefik

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// outsideHint is what to do for a server that is no Service.
const outsideHint = "write http://SERVICE.NAMESPACE.svc:PORT/PATH; for a server outside of the cluster, make a Service of type ExternalName and name that"

// authAddress reads the address of the server that is asked. It has to be a
// Service: a policy must not send the edge to an address of its own choosing.
func (s *step) authAddress(r *record, auth *route.ForwardAuth) {
	address := r.text("address")
	parsed, err := url.Parse(address)
	if err != nil || address == "" || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Opaque != "" || parsed.Host == "" {
		r.fault("address", snapshot.Invalid, "%q is not an http or https URL: %s", brief(address), outsideHint)
		return
	}
	switch {
	case parsed.User != nil:
		r.fault("address", snapshot.Unsupported, "it has a user: let the server recognise the edge in another way")
		return
	case parsed.Fragment != "":
		r.fault("address", snapshot.Unsupported, "the part behind # is never sent: remove it")
		return
	}
	name, found := serviceName(strings.TrimSuffix(strings.ToLower(parsed.Hostname()), "."))
	if !found {
		r.fault("address", snapshot.Unsupported, "%q is not the name of a Service: %s", brief(parsed.Host), outsideHint)
		return
	}
	port := networkingv1.ServiceBackendPort{Number: 80}
	if parsed.Scheme == "https" {
		port.Number = 443
	}
	if text := parsed.Port(); text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 {
			r.fault("address", snapshot.Invalid, "%q is no port", brief(text))
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
	auth.Backend, auth.Host = backend, parsed.Host
	auth.Path, auth.Query = rooted(parsed.EscapedPath()), parsed.RawQuery
}

// serviceName gives the Service that a host name of the cluster stands for, as
// name or namespace/name.
func serviceName(host string) (name string, found bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return "", false
	}
	host = strings.TrimSuffix(host, ".cluster.local")
	host, full := strings.CutSuffix(host, ".svc")
	labels := strings.Split(host, ".")
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

// wantScheme refuses a scheme that the Service is not spoken to by. The Service
// decides, because its backend is the same whoever asks it.
func (s *step) wantScheme(r *record, field, scheme string, backend route.BackendID) {
	service := s.source.View.Service(backend.Namespace, backend.Name)
	if service == nil {
		return
	}
	encrypted := speaksTLS(service, backend.Port)
	switch {
	case scheme == "" || scheme == "http" && !encrypted || scheme == "https" && encrypted:
	case scheme == "https":
		r.fault(field, snapshot.Unsupported, "it asks for https, and the Service %s/%s is spoken to without encryption: set its annotation %s to https",
			backend.Namespace, backend.Name, schemeAnnotation)
	case scheme == "http":
		r.fault(field, snapshot.Unsupported, "it asks for http, and the Service %s/%s is spoken to with encryption: write https",
			backend.Namespace, backend.Name)
	default:
		r.fault(field, snapshot.Unsupported, "%q is neither http nor https: set the annotation %s of the Service", brief(scheme), schemeAnnotation)
	}
}

const schemeAnnotation = "traefik.ingress.kubernetes.io/service.serversscheme"

// speaksTLS reports whether a port of a Service is spoken to by TLS: as its
// annotation says, or its appProtocol, or as its number or name suggests.
func speaksTLS(service *corev1.Service, number uint16) bool {
	// What is wrong with the annotations closes the backend, and so the policy.
	settings, _ := annotation.ParseService(service.Annotations)
	switch settings.Scheme {
	case "":
	case annotation.SchemeHTTPS, annotation.SchemeH2, annotation.SchemeALPN:
		return true
	default:
		return false
	}
	for i := range service.Spec.Ports {
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

// service gives the backend that an object names in the way of Traefik's
// routes. How it is spoken to and balanced is for the Service to say.
func (s *step) service(r *record) (route.BackendID, bool) {
	name, namespace, port := r.text("name"), r.text("namespace"), r.textOrNumber("port")
	scheme := r.text("scheme")
	if kind := r.text("kind"); kind != "" && kind != "Service" {
		r.fault("kind", snapshot.Unsupported, "%q is not supported: name a Service", brief(kind))
		return route.BackendID{}, false
	}
	// There is one Service, so it has all the weight.
	r.ignore("weight")
	if pass, said := r.take("passHostHeader"); said && !r.flag("passHostHeader") && pass == false {
		r.fault("passHostHeader", snapshot.Unsupported, "set service.passhostheader of the Service to false instead")
	}
	if strategy := r.text("strategy"); strategy != "" && strategy != "RoundRobin" && strategy != "wrr" {
		r.fault("strategy", snapshot.Unsupported, "set the annotation slipway.dev/balance of the Service instead")
	}
	for _, field := range []string{
		"sticky", "serversTransport", "nativeLB", "nodePortLB", "healthCheck", "passiveHealthCheck", "responseForwarding", "middlewares",
	} {
		r.refuse(field, "say it with annotations of the Service")
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
