// Package gateway makes routing rules and listeners of the objects of Gateway API. It
// takes the place that packages resolve and translate have for Ingresses: the same
// views record what it reads, and the same engine, table and program follow.
//
// A Gateway becomes a listener of the routing table for each of its ports, on the
// address that the Gateway has. An HTTPRoute becomes rules, each tied to such a
// listener. Several listeners of a Gateway can share a port: they differ in their
// host names then, and a request belongs to the one with the most specific name.
// This package decides that for good (listener isolation): a route has rules only
// for the host names that no more specific listener has, and each listener with a
// host name ends with a rule that returns 404, so that nothing falls through to a
// less specific one.
//
// It is pure: the same objects give the same result on every replica, without
// reads of the clock. Status is part of the result, without times.
//
// A route that cannot be served as it is written is not served at all: it is not
// accepted, with the reason. A backendRef that does not resolve affects its own share
// of the requests, which get a 500.
//
// References to other namespaces need a ReferenceGrant there, and no option
// replaces it. See decision 0044 in docs/decisions, decision 0052 for the
// certificates that listeners request, decision 0057 for Services of Gateways, and
// decision 0064 for addresses over a restart.
package gateway
