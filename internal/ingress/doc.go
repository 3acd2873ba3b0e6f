// Package ingress is the Ingress controller: it watches a cluster and keeps the
// routing table of the edge in step with its Ingresses.
//
// Its packages, in the order in which a change passes them: watch (reflectors
// and the event queue), snapshot (the objects of the cluster), engine (which
// units are dirty, and whose claims count), resolve with annotation, policy,
// traefik and reference (the settings of an Ingress, and its refusals), backend
// (the endpoints of a Service port), translate (rules; pure), status (addresses
// and Events, written by the leader). Beside them, acme issues the certificates
// that Ingresses request, in the values of certrequest.
//
// It promises that the first table is complete: the edge gets nothing before
// everything that the Ingresses name has been read, or is known to be missing.
// Afterwards a change is live as soon as it is read, and costs what it changes.
// Losing the API server changes nothing.
package ingress
