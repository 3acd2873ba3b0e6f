package snapshot

import (
	"cmp"
	"strings"
)

// Kind is a kind of object that routes depend on.
type Kind string

// The kinds. Those that are not built into Kubernetes have their group as a
// suffix.
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

// CustomKinds returns the kinds that a cluster may not have. They are watched only
// once an Ingress names one.
func CustomKinds() []Kind {
	return []Kind{Middleware, TLSOption, BackendTransport, TraefikMiddleware, TraefikTLSOption, TraefikServersTransport}
}

// Custom reports whether the kind is a custom one, which a cluster may not have.
func (k Kind) Custom() bool { return strings.Contains(string(k), ".") }

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

// Reason is the class of a refusal. It becomes part of the reason of an Event and
// a label of a metric, so the set is small and stable.
type Reason string

// The reasons.
const (
	// Invalid: a value is not valid.
	Invalid Reason = "Invalid"
	// Unsupported: the value is valid and not implemented here.
	Unsupported Reason = "Unsupported"
	// NotFound: a referenced object does not exist.
	NotFound Reason = "NotFound"
	// NotAllowed: an option of the edge forbids it.
	NotAllowed Reason = "NotAllowed"
	// NotReady: a referenced object has not been read or issued yet.
	NotReady Reason = "NotReady"
	// Unreadable: the API server denies or fails to read a referenced object.
	Unreadable Reason = "Unreadable"
	// Conflict: an older object has claimed something else.
	Conflict Reason = "Conflict"
	// TooLarge: a limit is exceeded.
	TooLarge Reason = "TooLarge"
)

// Fault is a part of an object that is not served as it is written.
type Fault struct {
	// Field is its path in the object: spec.rules[0].http.paths[1].path, or
	// metadata.annotations[slipway.dev/rate-limit].
	Field  string
	Reason Reason
	// Message is a sentence with the problem and what to do. It does not repeat
	// the field, and never contains the value of a Secret.
	Message string
}

// Error returns field and message.
func (f *Fault) Error() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// At returns the fault with its field below another one.
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

// Refusal is a fault with its object. It becomes an Event on the object.
type Refusal struct {
	Object Ref
	Fault
}
