// Package backend resolves a port of a Service to a backend of the routing table:
// its endpoints, their protocol, and how requests are balanced between them.
//
// # Addresses
//
// They come from the first of these four sources that applies:
//
//   - the nodes, if the Service is annotated with node-port-lb;
//   - the external name, for a Service of type ExternalName;
//   - the Service's ClusterIP, with the annotation native-lb or the option
//     nativeLBByDefault;
//   - the EndpointSlices of the Service. A slice counts where it has a TCP port
//     of the Service port's name; its number is that of the slice.
//
// An endpoint that is not ready, but serving and terminating, is draining: it gets
// only the requests of sticky clients. If none is ready, the draining ones get all
// requests, as with kube-proxy (KEP-1669). All others are left out. A Pod with addresses of both families counts once, with that of
// the Service's first family where it is usable.
//
// When every ready endpoint has hints and one is for the edge's zone, only
// those of the zone are used: what kube-proxy does, and what
// spec.trafficDistribution and the topology mode lead to. Where clients stick,
// the others stay for clients that another zone's edge has sent there.
//
// # Revisions
//
// While a Release is in the namespace, each endpoint gets the revision of the ReplicaSet
// that controls its Pod, and the backend the weights of the Release (decision 0066).
// Without one, no Pod is read.
//
// # Protocol
//
// The scheme of the annotation decides, then appProtocol of the Service port,
// then the port: 443, or a name that starts with https, is encrypted. An
// unknown appProtocol is ignored, since it may be any word. Without more settings
// TLS means HTTP/1.1 over TLS, because that carries every request, WebSockets too.
// A server that supports only HTTP/2, such as gRPC, needs the scheme h2 or alpn, or
// appProtocol grpcs.
//
// TLS is verified. The default name is SERVICE.NAMESPACE.svc, which certificates
// of a cluster have, and the external name for an ExternalName. The default
// authorities are those of the system. A BackendTransport or a ServersTransport
// that the Service names sets other authorities, another name, or disables the
// verification.
//
// # What a fault does
//
//	scheme, transport, pass-host-header   closed
//	sticky-cookie                         closed
//	native-lb, node-port-lb               closed
//	an unknown annotation                 closed, see package annotation
//	an ExternalName that is not allowed   closed
//	balance, balance-hash, prefer-zone    served without, with a refusal
//	slow-start, health-check              served without, with a refusal
//	max-in-flight, -per-endpoint          served without, with a refusal
//	an EndpointSlice that cannot be used  served without, with a refusal
//	more than MaxEndpoints endpoints      the first are served, with a refusal
//
// Closed backends have no endpoints, and rules that use one return 503: without the
// setting, requests could go to a wrong place or over a wrong protocol.
//
// # Promises
//
// A backend is valid in package route for any objects, if its identity is. The same
// objects give the same result on every replica, deeply equal and in the same
// order. It reads through a View and keeps no state.
//
// # Refusals
//
// An ExternalName is refused unless it is allowed. Even then it never leads to
// the machine itself, to a link-local address or to the metadata service of a
// cloud, and only with allowCrossNamespace to a Service of another namespace.
// For a name that resolves to such an address, package edge refuses the
// connection.
package backend
