// Package v1alpha1 declares our own kinds of Kubernetes objects, group
// slipway.dev: Middleware, TLSOption and BackendTransport.
//
// The structs are the one declaration of what can be written. Their tags say
// for each field what it means, what values it takes and what it is without
// one, and everything else is read from them: the check of an object or an
// annotation, the schema in the CustomResourceDefinitions, the reference page.
// Package declare explains the tags.
//
// What these objects name are objects of Kubernetes: a Secret, a Service and its
// port, another Middleware. A name is that of an object in the same namespace;
// namespace/name leads elsewhere, where the edge allows it.
//
// It refuses to know what a field does to a request: package route and the edge
// do.
package v1alpha1

// The group and version of the kinds.
const (
	Group   = "slipway.dev"
	Version = "v1alpha1"
)
