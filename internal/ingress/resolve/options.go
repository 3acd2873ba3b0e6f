package resolve

import (
	"net/netip"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
)

// GatewayOptions are the options for Gateway API.
type GatewayOptions struct {
	// Addresses are those of Gateways, on this machine.
	Addresses []netip.Prefix
	// AddressesPerNamespace bounds those of the Gateways of a namespace; 0 for no bound.
	AddressesPerNamespace int
	// Served are the addresses that Gateways had when the edge stopped, as it recorded them.
	Served map[snapshot.Ref]netip.Addr
	// ServiceType is the type of the Services of Gateways; empty if they have addresses of
	// this machine. The Services lead to target ports, from the first to the last one, of
	// the endpoints of EdgeService, a namespace/name.
	ServiceType             string
	FirstTarget, LastTarget uint16
	// TargetsPerNamespace bounds the target ports of the Gateways of a namespace; 0 for
	// no bound.
	TargetsPerNamespace int
	EdgeService         string
	// Services is set if each Gateway has a Service, with its infrastructure.
	Services bool
	// DeploymentNamespace has the Deployments of Gateways, and the Services with their
	// Pods, which replace EdgeService; empty if Gateways share the edge.
	DeploymentNamespace string
}

// NGINXOptions are the options for Ingresses of ingress-nginx.
type NGINXOptions struct {
	// Class is the value of the older annotation, and Controller the controller of the
	// IngressClasses.
	Class, Controller string
	// WithoutClass serves Ingresses without a class, too.
	WithoutClass bool
	// Defaults are those of its ConfigMap; nil for those of the program.
	Defaults *nginx.Settings

	parser nginx.Parser
}

// TraefikOptions are the options for the routes of Traefik.
type TraefikOptions struct {
	// CrossNamespace allows references into other namespaces.
	CrossNamespace bool
	// IngressClass is the value of the annotation kubernetes.io/ingress.class of the
	// routes that are served. Empty means those without the annotation, or with the
	// value traefik.
	IngressClass string
	// Syntax is that of the rules that name none.
	Syntax rule.Syntax
	// TCPEntryPoints are those whose connections a route without a server name may take.
	TCPEntryPoints []string
	// UDPEntryPoints are those that take datagrams, sorted. EntryPoints has none of them.
	UDPEntryPoints []string
	// StoreNamespace is the namespace whose TLSStore counts.
	StoreNamespace string
}

// Options are the options of the provider that affect how objects are resolved.
type Options struct {
	// IngressClass is the class that is served: the name of an IngressClass, or
	// the value of the older annotation. Empty means every class of our
	// controller, and Ingresses without a class.
	IngressClass string
	// NoClassLookup is set if IngressClasses are not read.
	NoClassLookup bool
	// NoClusterScope is set if no cluster-scoped objects are read, neither
	// IngressClasses nor nodes.
	NoClusterScope bool
	// AllowEmptyServices runs the policies of a path before the 503 of a Service
	// without endpoints.
	AllowEmptyServices bool
	// CrossNamespace allows references into other namespaces.
	CrossNamespace bool
	// ExternalNames allows Services of type ExternalName.
	ExternalNames bool
	// NativeByDefault sends requests to the address of the Service.
	NativeByDefault bool
	// HostSharing selects what becomes of rules for the host of another namespace.
	HostSharing HostSharing
	// StrictPrefix matches prefixes element by element.
	StrictPrefix bool
	// DisablePassHost sends backends their own address as the Host header.
	DisablePassHost bool
	// EntryPoints are the entry points, and whether requests can come encrypted
	// there.
	EntryPoints map[string]bool
	// Resolvers are the configured certificate resolvers by name.
	Resolvers map[string]CertificateResolver
	// Home is the namespace of the edge itself, which has the Secret of ACME
	// challenges; empty without a resolver.
	Home string
	// Gateways are the options for Gateway API.
	Gateways GatewayOptions
	// NGINX are the options for Ingresses of ingress-nginx; nil where none are served.
	NGINX *NGINXOptions
	// Traefik are the options for the routes of Traefik; nil if they are not served.
	Traefik *TraefikOptions
	// Zone is where this replica runs, for topology hints; empty when unknown.
	Zone string
}

// CertificateResolver is the part of a certificate resolver that decides who may use
// it, and for which hosts.
type CertificateResolver struct {
	// Wildcards is set for DNS challenges: no other proves a wildcard.
	Wildcards bool
	// Namespaces may use it; empty means all.
	Namespaces []string
}
