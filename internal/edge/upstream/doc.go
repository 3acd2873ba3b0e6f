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
// A [Conn] always speaks HTTP/1.1 to the proxy. Where the endpoint speaks HTTP/2
// it is a stream of a connection that the endpoint's requests share, and package
// h2client translates.
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
//   - unhealthy: it fails the health checks that its backend declares, and gets
//     nothing until it passes them. That is apart from ejection: an endpoint can
//     be both.
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
//     the only one. When all are ejected or unhealthy, they are used: who is
//     really down gives no worse an answer than 503, and a wrong check must not
//     take a backend down that serves.
//   - An idle connection of HTTP/1.1 costs no buffers and no goroutine, one of
//     HTTP/2 two goroutines. Health checks cost a goroutine only while they run,
//     and no more than a bounded number run at a time.
//   - A request that an endpoint did not look at, because it refused the stream
//     or was going away, reads as a connection that died of age ([ErrRefused]).
//
// # Refusals
//
// Over TLS, HTTP/2 is offered only where the backend says so (h2, alpn): it
// carries no upgrades, so WebSockets need http1 or tls. An endpoint that does
// not speak the HTTP/2 that was asked for is not connected to. A host name that
// resolves to the machine itself or to a link-local address is not either (see
// [Config].LocalNames). Requests over a limit in flight are refused at once
// with an [OverloadError]: there is no queue, which would only hide the overload.
package upstream
