// Package resolve resolves the references and settings of an Ingress: the class
// that makes it ours, its Services, Secrets and middlewares, and its annotations.
//
// It promises that a [ResolvedIngress] is complete: each reference is either found
// or refused, and every object that was read is recorded in the View, so that a
// change of any of them resolves the Ingress again. One fault does not hide the
// others. A path that depends on something refused is closed, never served
// without it. Resolving never fails and never panics, for any Ingress.
//
// It reads other namespaces only where the options allow it, never uses a
// certificate of another namespace, and bounds the cost of an Ingress to
// [MaxRules] rules and [MaxHosts] hosts.
//
// Priorities of Traefik are converted to our scale (decision 0041).
//
// Package translate makes routing rules of a ResolvedIngress.
package resolve
