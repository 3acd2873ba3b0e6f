// Package nginx reads the annotations and the ConfigMap of ingress-nginx, and places
// rules as its configuration of nginx would.
//
// One table has all annotations and one all keys of the ConfigMap: what is carried out
// here, what has no effect here and why, and what is refused and what to do instead.
// The parser, the reference page and the refusals come from the tables. An annotation
// that restricts access closes the Ingress if it cannot be carried out: the rules
// return 503, and are not served without it.
//
// ingress-nginx makes one server of all Ingresses of a host, and a location of each
// path. Most of what differs from the Ingress specification is decided for the host:
// one Ingress with use-regex or rewrite-target makes all paths of the host expressions
// (decision 0053). So an Ingress is read alone, and [Host] places its rules when all
// Ingresses of the host are known.
//
// A URL of an authentication server is read into its parts, and package resolve finds
// the backend for it (decision 0055).
//
// The package is pure: it reads no objects and no clock, and its input is bounded.
package nginx
