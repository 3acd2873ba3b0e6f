// Package traefik converts objects of the group traefik.io to values of the routing
// table, so that a cluster can migrate without rewriting them: Middleware, TLSOption
// and ServersTransport, as an Ingress or a Service names them.
//
// It promises the meaning that Traefik gives a field, or a Refusal that names the
// field. Nothing is ignored silently: no unsupported field, no unknown field and no
// value of a wrong type. A field with its zero value (false, 0, empty) is no fault,
// even if it is unsupported. docs/migration-traefik.md lists the differences.
//
// With a fault, the caller closes the routes that name the object. A result beside a
// fault must not be served.
package traefik
