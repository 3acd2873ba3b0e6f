// Package upstream has the edge's side of every backend: load balancing,
// connection pools, health checks and outlier ejection.
//
// A [Set] has the state of all backends by identity. [Set.Apply] applies a
// change of the routing table; a rule holds its backend by a [Handle], which
// stays the same through changes. [Handle.Pick] chooses an endpoint and returns
// a [Lease], which counts as one request in flight until [Lease.Done].
// [Lease.Connect] takes an idle connection or makes one, and [Conn.Release]
// keeps it for the next request. The proxy calls all of this for each request;
// nothing of it allocates when an idle connection is there.
//
// A [Conn] always speaks HTTP/1.1 to the proxy. Where the endpoint speaks
// HTTP/2 it is a stream of a connection that the requests of the endpoint
// share, and package h2client translates. Plain connections that a task of an event
// loop makes are of that loop, and used by its tasks (decisions 0087 and 0090).
//
// # States of an endpoint
//
//   - ready: it gets requests.
//   - draining: it gets only requests of clients with its sticky cookie.
//   - ejected: it failed too often in a row and gets no requests. When
//     connecting failed, the edge tries to connect in the background until that
//     works; otherwise the time of the ejection has to pass.
//   - half-open: after the ejection it gets one request at a time, as a probe.
//     A response makes it ready, another failure ejects it for twice as long.
//   - unhealthy: it fails the health checks that its backend declares, and gets
//     no requests until it passes them. That is independent of ejection: an
//     endpoint can be both.
//   - removed: it left the table. Its idle connections are closed, and those in
//     use are closed after their request.
//
// # Promises
//
//   - An endpoint that stays keeps its connections, counters and health through
//     every change of the table, unless its transport changed.
//   - A request sees all of a change of its backend or nothing of it.
//   - An error in one backend makes that one Broken, with a reason, and affects
//     no other. A broken backend gets no requests: the edge never falls back to
//     a transport with less verification than was configured.
//   - At most half of the ready endpoints of a backend are ejected, and never
//     the only one. When all are ejected or unhealthy, they are used: an
//     endpoint that is really down is no worse than a 503, and a wrong check
//     must not take a backend down that serves.
//   - An idle HTTP/1.1 connection needs no buffers and no goroutine, an HTTP/2
//     connection one goroutine or task. Health checks need a goroutine only while they
//     run, and a bounded number of them runs at a time.
//   - A request that an endpoint refused before processing it, by RST_STREAM or
//     GOAWAY, fails like one on a stale connection ([ErrRefused]), and may be
//     retried.
//
// # Refusals
//
// Over TLS, HTTP/2 is offered only where the backend selects it (h2, alpn): it
// carries no upgrades, so WebSockets need http1 or tls. An endpoint that does
// not speak the selected HTTP/2 is not connected to, and neither is a host name
// that resolves to the machine itself or to a link-local address (see
// [Config].LocalNames). Requests over a limit in flight are refused at once
// with an [OverloadError]: there is no queue, which would only hide the
// overload.
//
// See decision 0025 in docs/decisions: A request reads few places in memory.
package upstream
