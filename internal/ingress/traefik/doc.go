// Package traefik reads objects of the group traefik.io, so that a cluster can
// change its edge without rewriting them: Middleware, TLSOption and
// ServersTransport, as an Ingress or a Service names them.
//
// It promises the meaning that Traefik gives a field, or a Fault that names the
// field. Nothing is left out in silence: not a field that we do not have, not
// one that we do not know, and not a value that is not of its form. A field
// whose value asks for nothing (false, zero, empty) is no fault, whatever it
// is. docs/migration-traefik.md lists what is done differently.
//
// With a fault, the caller closes what names the object. What is returned
// besides a fault is not to be served.
package traefik
