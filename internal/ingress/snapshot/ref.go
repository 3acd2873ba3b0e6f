package snapshot

import (
	"cmp"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Kind is a kind of object that routes depend on.
type Kind string

// The kinds. Those that are not built into Kubernetes have their group as a
// suffix.
const (
	Ingress      Kind = "Ingress"
	IngressClass Kind = "IngressClass"
	Service      Kind = "Service"
	// IngressHost stands for all Ingresses with rules for a host, under its name.
	IngressHost Kind = "IngressHost"
	// EndpointSlice stands for all slices of a Service, under its name.
	EndpointSlice Kind = "EndpointSlice"
	Secret        Kind = "Secret"
	// ConfigMap is read as a Resource, whose spec is its data. Of one with more than
	// MaxHeaderMap bytes it has the key ca.crt only, and OmittedKey.
	ConfigMap Kind = "ConfigMap"
	// Node stands for all nodes, without a name.
	Node Kind = "Node"

	Middleware       Kind = "Middleware.slipway.dev"
	TLSOption        Kind = "TLSOption.slipway.dev"
	BackendTransport Kind = "BackendTransport.slipway.dev"

	TraefikMiddleware       Kind = "Middleware.traefik.io"
	TraefikTLSOption        Kind = "TLSOption.traefik.io"
	TraefikServersTransport Kind = "ServersTransport.traefik.io"
)

// AuthorityKey is the key of the certificates of authorities in a ConfigMap.
const AuthorityKey = "ca.crt"

// MaxHeaderMap bounds the data of a ConfigMap that is kept: those with headers are
// smaller, and the others are for other programs. OmittedKey, which no ConfigMap has,
// marks one with more.
const (
	MaxHeaderMap = 4 << 10
	OmittedKey   = "/omitted"
)

// CustomKinds returns the kinds that a cluster may not have. They are watched only
// once an object names one, apart from routes.
func CustomKinds() []Kind {
	return append([]Kind{Middleware, TLSOption, BackendTransport}, TraefikKinds()...)
}

// Custom reports whether the kind is a custom one, which a cluster may not have. A
// ConfigMap is treated as one: most clusters have no use for them here, so they are not
// watched before an object names one.
func (k Kind) Custom() bool { return strings.Contains(string(k), ".") || k == ConfigMap }

// Ref identifies an object, or a set of objects that is read as one.
type Ref struct {
	Kind      Kind
	Namespace string
	Name      string
}

// Compare orders by kind, namespace, name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(
		cmp.Compare(r.Kind, other.Kind),
		strings.Compare(r.Namespace, other.Namespace),
		strings.Compare(r.Name, other.Name),
	)
}

// String returns the reference for messages: Ingress shop/cart.
func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + r.Name
	}
	return strings.TrimSpace(string(r.Kind) + " " + name)
}

// Object returns the reference for a refusal, with the group apart from the kind.
func (r Ref) Object() refusal.Object {
	kind, group, _ := strings.Cut(string(r.Kind), ".")
	return refusal.Object{Group: group, Kind: kind, Namespace: r.Namespace, Name: r.Name}
}

// RefOf returns the reference of the object of a refusal.
func RefOf(object refusal.Object) Ref {
	kind := object.Kind
	if object.Group != "" {
		kind += "." + object.Group
	}
	return Ref{Kind: Kind(kind), Namespace: object.Namespace, Name: object.Name}
}
