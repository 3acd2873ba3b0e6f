// Package v1alpha1 declares our own kinds of Kubernetes objects, group
// slipway.dev: Middleware, TLSOption, BackendTransport, Release, ReleasePolicy,
// Environment and Promotion.
//
// The structs are the one declaration of the fields. Their tags have the
// meaning, the values and the default of each field, and everything else is
// derived from them: the validation of an object or an annotation, the schema
// in the CustomResourceDefinitions, the reference page.
// Package declare explains the tags.
//
// These objects refer to objects of Kubernetes: a Secret, a Service and its
// port, another Middleware. A name is that of an object in the same namespace;
// namespace/name leads elsewhere, where the edge allows it.
//
// It does not define the effect of a field on a request: package route and the
// edge do.
package v1alpha1

// The group and version of the kinds.
const (
	Group   = "slipway.dev"
	Version = "v1alpha1"
)
