package snapshot

import (
	"cmp"
	"strings"
)

// Kind is a kind of object that routes are made of.
type Kind string

// The kinds. Those that are not part of Kubernetes have their group behind
// their name.
const (
	Ingress      Kind = "Ingress"
	IngressClass Kind = "IngressClass"
	Service      Kind = "Service"
	// EndpointSlice stands for all slices of a Service, under its name.
	EndpointSlice Kind = "EndpointSlice"
	Secret        Kind = "Secret"
	// Node stands for all nodes, without a name.
	Node Kind = "Node"

	Middleware       Kind = "Middleware.slipway.dev"
	TLSOption        Kind = "TLSOption.slipway.dev"
	BackendTransport Kind = "BackendTransport.slipway.dev"

	TraefikMiddleware       Kind = "Middleware.traefik.io"
	TraefikTLSOption        Kind = "TLSOption.traefik.io"
	TraefikServersTransport Kind = "ServersTransport.traefik.io"
)

// CustomKinds are those that a cluster may not have. They are watched only when
// an Ingress names one.
func CustomKinds() []Kind {
	return []Kind{Middleware, TLSOption, BackendTransport, TraefikMiddleware, TraefikTLSOption, TraefikServersTransport}
}

// Custom reports whether the kind is one that a cluster may not have.
func (k Kind) Custom() bool { return strings.Contains(string(k), ".") }

// Ref names an object, or a set of objects that readers read as one.
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

// String is the reference for people: Ingress shop/cart.
func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + r.Name
	}
	return strings.TrimSpace(string(r.Kind) + " " + name)
}

// Reason says in one word why something is refused. It becomes the reason of an
// Event and the label of a metric.
type Reason string

// The reasons.
const (
	// Invalid: a value is not one of those that are possible.
	Invalid Reason = "Invalid"
	// Unsupported: it means something, and we do not do it.
	Unsupported Reason = "Unsupported"
	// NotFound: something that is named does not exist.
	NotFound Reason = "NotFound"
	// NotAllowed: an option of the edge forbids it.
	NotAllowed Reason = "NotAllowed"
	// NotReady: something that is named has not been read yet.
	NotReady Reason = "NotReady"
	// Unreadable: the API server does not let us read what is named.
	Unreadable Reason = "Unreadable"
	// Conflict: another object has asked for something else first.
	Conflict Reason = "Conflict"
	// TooLarge: a limit is exceeded.
	TooLarge Reason = "TooLarge"
)

// Fault is something in an object that is not done as it is written.
type Fault struct {
	// Field is the place in the object: spec.rules[0].http.paths[1].path, or
	// metadata.annotations[slipway.dev/rate-limit].
	Field  string
	Reason Reason
	// Message says what is wrong and what to do. It does not repeat the field,
	// and never shows the value of a Secret.
	Message string
}

// Error is the fault for people.
func (f *Fault) Error() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// At puts a field in front of the fault's own.
func (f *Fault) At(field string) *Fault {
	moved := *f
	switch {
	case f.Field == "":
		moved.Field = field
	case strings.HasPrefix(f.Field, "["):
		moved.Field = field + f.Field
	default:
		moved.Field = field + "." + f.Field
	}
	return &moved
}

// Refusal is a fault with the object that has it. It ends in an Event on the
// object.
type Refusal struct {
	Object Ref
	Fault
}
