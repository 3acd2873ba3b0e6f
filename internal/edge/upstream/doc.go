// Package upstream holds the edge's side of every backend: which endpoint gets
// a request, the connections to it, and what is known of its health.
//
// A [Set] has the state of all backends by identity. [Set.Apply] follows a
// change of the routing table; a [Handle] is how a rule keeps hold of a backend
// meanwhile. [Handle.Pick] chooses an endpoint and gives a [Lease], which
// counts as one request in flight until [Lease.Done]. [Lease.Connect] takes an
// idle connection or makes one, and [Conn.Release] keeps it for the next. The
// proxy calls all of this for each request; nothing of it allocates when an
// idle connection is there.
//
// # States of an endpoint
//
//   - ready: it gets requests.
//   - draining: it gets only requests of clients that stick to it.
//   - ejected: it failed too often in a row and gets nothing. When connecting
//     failed, a connection is tried in the background until one is made;
//     otherwise the time of the ejection has to pass.
//   - on trial: after that it gets one request at a time. An answer makes it
//     ready, another failure ejects it for twice as long.
//   - gone: it left the table. Its idle connections are closed, and those in
//     use are closed after their request.
//
// # Promises
//
//   - An endpoint that stays keeps its connections, counters and health through
//     every change of the table, unless the way to talk to it changed.
//   - A request sees all of a change of its backend or nothing of it.
//   - What is wrong with one backend makes that one Broken, with a reason, and
//     hurts no other. A broken backend gets no request: the edge never talks to
//     it with less care than was asked for.
//   - At most half of the ready endpoints of a backend are ejected, and never
//     the only one.
//   - An idle connection costs no buffers and no goroutine.
//
// # Refusals
//
// HTTP/2 is not spoken: a backend with the protocol h2c is Broken, and over TLS
// only http/1.1 is offered. A host name that resolves to the machine itself or
// to a link-local address is not connected to (see [Config].LocalNames). The
// table does not declare health checks or concurrency limits, so there are no
// checks of endpoints that are not ejected, and one limit for all endpoints
// ([Config].MaxInFlightPerEndpoint).
package upstream
