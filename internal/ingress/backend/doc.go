// Package backend makes a backend of the routing table from a port of a
// Service: which addresses serve it, how they are spoken to, and how requests
// are spread over them.
//
// # Addresses
//
// They come from one of four places, the first that applies:
//
//   - the nodes, where the Service asks for its node port (node-port-lb);
//   - the external name, for a Service of type ExternalName;
//   - the Service's own address, where it or the option nativeLBByDefault asks
//     for that (native-lb);
//   - the EndpointSlices of the Service. A slice counts where it has a TCP port
//     of the Service port's name, with the number that the slice says.
//
// A ready endpoint is ready. One that is not ready, serves and terminates is
// draining: it gets only requests of clients that stick to it. When none is
// ready, the draining ones get all requests, as kube-proxy does it. All others
// are left out. A Pod with addresses of both families counts once, with that of
// the Service's first family where it is usable.
//
// When every ready endpoint has hints and one is for the edge's zone, only
// those of the zone are used: what kube-proxy does, and what
// spec.trafficDistribution and the topology mode lead to. Where clients stick,
// the others stay for clients that another zone's edge has sent there.
//
// # Protocol
//
// The scheme of the annotation decides, then appProtocol of the Service port,
// then the port: 443, or a name that starts with https, is encrypted. An
// appProtocol that says nothing to us is passed over, since it may be any word.
// Encrypted means HTTP/1.1 over TLS where nothing more is said, because that
// carries every request, WebSockets too. A server that speaks only HTTP/2, as
// those of gRPC do, is named by the scheme h2 or alpn, or by appProtocol grpcs.
//
// What is encrypted is verified. Without a word about the name it is
// SERVICE.NAMESPACE.svc, which certificates of a cluster have, and the external
// name for an ExternalName. Without a word about the authority it is the
// system's. A BackendTransport or a ServersTransport that the Service names
// gives another authority, another name, or says that it is not verified.
//
// # What a fault does
//
//	scheme, transport, pass-host-header   closed
//	sticky-cookie                         closed
//	native-lb, node-port-lb               closed
//	an annotation that is not known       closed, as package annotation says
//	ExternalName that may not be used     closed
//	balance, balance-hash, prefer-zone    served without, with a refusal
//	slow-start, health-check              served without, with a refusal
//	max-in-flight, -per-endpoint          served without, with a refusal
//	an EndpointSlice that cannot be used  served without, with a refusal
//	more than MaxEndpoints endpoints      the first are served, with a refusal
//
// Closed backends have no endpoints, and rules that use one answer 503: without
// what was asked for, requests would go where they should not, in a way that
// they should not.
//
// # Promises
//
// A backend passes the checks of package route, whatever the objects say, as
// long as its identity does. The same objects give the same result on every
// replica, deeply equal and in the same order. It reads through a View and
// keeps nothing.
//
// # Refusals
//
// An ExternalName is refused unless it is allowed. Even then it never leads to
// the machine itself, to a link-local address or to the metadata service of a
// cloud, and only with allowCrossNamespace to a Service of another namespace.
// For a name that resolves to such an address, package edge refuses the
// connection.
package backend
