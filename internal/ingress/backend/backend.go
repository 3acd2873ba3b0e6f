package backend

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// RouteVariant is the variant of the backends of Gateway API's routes. Their protocol
// is not derived from the number or the name of a port: BackendTLSPolicy has that.
const RouteVariant = "route"

// GRPCVariant is the variant of the backends of GRPCRoutes, which speak HTTP/2.
const GRPCVariant = "grpc"

// The variants of the backends of routes for connections. The bytes of TCPVariant and
// UDPVariant are passed on as they are; those of TLSVariant were decrypted, and are
// encrypted again if a BackendTLSPolicy asks for it.
const (
	TCPVariant = "tcp"
	TLSVariant = "tls"
	UDPVariant = "udp"
)

// sessionSuffix ends the variant of a backend whose endpoints keep their clients.
const sessionSuffix = "-session"

// WithSession returns the variant of a backend whose endpoints keep their clients. Each
// rule of a route decides it, and has the cookie. A certificate comes after it.
func WithSession(variant string) string { return variant + sessionSuffix }

// WithCertificate returns the variant of a backend whose endpoints get a certificate of
// the edge. The Gateway of a route decides it, so that one Service can need several. No
// name of an object has an underscore.
func WithCertificate(variant string, id route.CertificateID) string {
	return variant + "_" + id.Namespace + "_" + id.Name
}

// Options are the options of the provider that affect backends.
type Options struct {
	// ExternalNames allows Services of type ExternalName.
	ExternalNames bool
	// NativeByDefault sends requests to the address of the Service.
	NativeByDefault bool
	// DisablePassHost sends backends their own address as the Host header.
	DisablePassHost bool
	// NoClusterScope is set if nodes are not read.
	NoClusterScope bool
	// CrossNamespace allows references into other namespaces.
	CrossNamespace bool
	// Zone is the zone of this replica, for topology hints; empty if unknown.
	Zone string
	// NGINX are the defaults of ingress-nginx's Ingresses; nil for those of the program.
	NGINX *nginx.Settings
	// Settings replace those of the Service, as far as they are set; nil for none.
	Settings *annotation.Service
	// OldGroup finds a transport in the older group of Traefik, too.
	OldGroup bool
}

// Result is a resolved backend, with the objects of the table that it refers to and
// its refusals.
type Result struct {
	// Backend is never nil. A closed one has no endpoints.
	Backend *route.Backend
	// Endpoints has the origin and number of endpoints, for explain.
	Endpoints Endpoints
	// Timeouts are those of the transport, for the rules that use the backend.
	Timeouts route.Timeouts
	// Authorities and Certificates are those of the transport.
	Authorities  []*route.Authority
	Certificates []*route.Certificate
	// Refusals are the faults, each with the object that has it.
	Refusals []refusal.Refusal
	// Closed is why no request may be sent; nil if requests may.
	Closed *refusal.Refusal
}

// Build resolves the backend of a port of a Service. The identity has the number of
// the port.
func Build(view *snapshot.View, id route.BackendID, options Options) Result {
	b := &builder{
		view: view, options: options,
		result: Result{Backend: &route.Backend{ID: id}},
	}
	b.variant, b.certificate, _ = strings.Cut(id.Variant, "_")
	b.variant, b.session = strings.CutSuffix(b.variant, sessionSuffix)
	if b.service = hostService(id); b.service != nil {
		b.quiet = true
	} else {
		b.service = view.Service(id.Namespace, id.Name)
	}
	if b.service == nil {
		return b.gone(fmt.Sprintf("there is no Service %s/%s: create it, or name another", id.Namespace, id.Name))
	}
	b.network = corev1.ProtocolTCP
	if b.variant == UDPVariant {
		b.network = corev1.ProtocolUDP
	}
	b.port = portOf(b.service, id.Port, b.network)
	if b.port == nil {
		return b.gone(fmt.Sprintf("the Service %s/%s has no %s port %d: it has %s", id.Namespace, id.Name, b.network, id.Port, portList(b.service, b.network)))
	}
	b.build()
	return b.result
}

// builder is the working state for one backend.
type builder struct {
	view    *snapshot.View
	options Options
	// variant is that of the identity, without what WithSession and WithCertificate add.
	variant, certificate string
	// session is set if the endpoints keep their clients by the cookie of the rule.
	session  bool
	service  *snapshot.ServiceFacts
	port     *corev1.ServicePort
	network  corev1.Protocol // of the port
	settings *annotation.Service
	// nginx are the settings of an Ingress of ingress-nginx, nil for other backends.
	nginx *nginx.Backend
	// quiet is set for a Service that does not exist, and so cannot have refusals.
	quiet bool
	// external is the resolved name of an ExternalName.
	external external
	result   Result
}

// build runs the steps that can close the backend first, then the optional ones.
func (b *builder) build() {
	if fault := b.readSettings(); fault != nil {
		b.shut(fault)
		return
	}
	steps := []func() *refusal.Refusal{b.readExternalName, b.setTransport, b.setSticky, b.setEndpoints, b.lastCheck}
	for _, step := range steps {
		if fault := step(); fault != nil {
			b.refuse(fault)
			b.shut(fault)
			return
		}
	}
	b.setTuning()
}

// gone returns the result for a port that does not exist. It has no refusal: the
// Ingress that names the port has one.
func (b *builder) gone(message string) Result {
	b.shut(&refusal.Refusal{Reason: refusal.NotFound, Message: message})
	return b.result
}

// refuse records a fault of the Service.
func (b *builder) refuse(fault *refusal.Refusal) {
	if b.quiet {
		return
	}
	b.refuseOn(snapshot.Ref{Kind: snapshot.Service, Namespace: b.service.Namespace, Name: b.service.Name}, fault)
}

// refuseOn records a fault of an object.
func (b *builder) refuseOn(object snapshot.Ref, fault *refusal.Refusal) {
	refused := fault.Of(object.Object())
	refused.Message = bounded(refused.Message)
	b.result.Refusals = append(b.result.Refusals, refused)
}

// shut closes the backend and removes its endpoints and transport, so that no
// request can be sent even if a rule keeps the backend.
func (b *builder) shut(fault *refusal.Refusal) {
	closed := *fault
	closed.Message = bounded(closed.Message)
	b.result = Result{
		Backend:  &route.Backend{ID: b.result.Backend.ID},
		Refusals: b.result.Refusals,
		Closed:   &closed,
	}
}

// lastCheck validates the whole backend: one that the routing table rejects is
// closed with a refusal here, instead of being dropped by the edge.
func (b *builder) lastCheck() *refusal.Refusal {
	bare := *b.result.Backend
	bare.Endpoints = nil // made of parsed addresses; there can be thousands
	return b.faultOf(&bare, "")
}

// portOf returns the port of a number. A number can occur twice, for TCP and UDP.
func portOf(service *snapshot.ServiceFacts, number uint16, network corev1.Protocol) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if number != 0 && port.Port == int32(number) && cmp.Or(port.Protocol, corev1.ProtocolTCP) == network {
			return port
		}
	}
	return nil
}

func portList(service *snapshot.ServiceFacts, network corev1.Protocol) string {
	var ports []string
	for _, port := range service.Spec.Ports {
		if cmp.Or(port.Protocol, corev1.ProtocolTCP) == network {
			ports = append(ports, strconv.Itoa(int(port.Port)))
		}
	}
	if len(ports) == 0 {
		return "none"
	}
	return strings.Join(ports, ", ")
}

// bounded truncates a message, which may quote a value of a hostile object.
func bounded(message string) string { return refusal.Shorten(message, 400) }
