// Package ingress serves the Ingresses of a cluster: it follows the cluster and
// keeps the routing table as the Ingresses say.
//
// Its parts, in the order in which a change meets them: watch (reads the
// cluster), snapshot (what is known), resolve with annotation, policy and
// traefik (what an Ingress asks for, and what of it is refused), backend (a
// Service's port), translate (rules), engine (what has to be resolved again,
// and whose claims count), status (what is written back). Beside them, acme
// fetches certificates that Ingresses wish for.
//
// It promises that the first table is complete: nothing is said to the edge
// before everything that the Ingresses name has been read, or is known not to
// be there. Afterwards a change is live as soon as it is read, and costs what
// it changes. Losing the API server changes nothing.
package ingress
