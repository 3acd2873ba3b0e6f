package resolve

// Options are those of the provider that decide what objects mean.
type Options struct {
	// IngressClass is the class that is served: the name of an IngressClass, or
	// the value of the older annotation. Empty is every class of our controller,
	// and Ingresses without a class.
	IngressClass string
	// NoClassLookup is set where IngressClasses are not read.
	NoClassLookup bool
	// NoClusterScope is set where nothing outside namespaces is read, neither
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
	// StrictPrefix matches prefixes element by element.
	StrictPrefix bool
	// DisablePassHost sends backends their own address as the Host header.
	DisablePassHost bool
	// Resolvers are the names of those that fetch certificates.
	Resolvers map[string]bool
	// Home is the namespace of the edge itself, where the answers to the
	// challenges of authorities are kept; empty where nothing is fetched.
	Home string
	// Zone is where this replica runs, for topology hints; empty when unknown.
	Zone string
}
