// Package hub is the platform's end of the tunnel. Agents connect to it, and
// the platform sends requests to runtimes through their connections as if it
// could reach the clusters.
//
// A connection is a WebSocket with yamux streams; each stream carries
// HTTP/1.1 to the agent's router. Only the token identifies an agent. It is
// checked before the upgrade, whenever the agent sends a new one, when the
// store reports a change of the runtime or its credential, and at intervals.
// A connection whose token expires or is revoked is closed with all its
// streams.
//
// Several replicas of the platform share the load. Each replica writes to the
// Directory which runtimes are connected to it. A request for a runtime that
// is connected to another replica is forwarded to that replica once,
// authenticated with a token that replicas sign.
//
// It guarantees
//
//   - that a request reaches the runtime it is for, or fails;
//   - that only requests below /app-proxy/, /webhooks/ and /workflows/ pass, with
//     bounded headers and bodies and bounded concurrency (Limits);
//   - that a request is retried only if no byte of it was sent;
//   - that a runtime whose credential is revoked is disconnected within five seconds;
//   - that agents are moved to another replica before this one shuts down, and that
//     requests in flight complete.
//
// It rejects streams that an agent opens besides its control stream, and
// agents whose configured name differs from their token's. It does not
// authorize users: the gateway does, before it uses a Transport.
package hub
