// Package hub is the platform's end of the tunnel. Agents connect to it, and the
// platform sends them requests as if it could reach them.
//
// A connection is a WebSocket with yamux streams; each stream carries HTTP/1.1 to
// the agent's router. Who an agent is, its token says, and nothing else: the token
// is checked before the upgrade is answered, whenever the agent presents it again,
// when the store says that something changed about the runtime, and at intervals.
// A connection whose token expires or is revoked is closed with all that is on it.
//
// Several replicas of the platform share the work. Each writes into the Directory
// which runtimes are connected to it; a request for a runtime that is connected
// elsewhere goes to that replica, once, with a token that replicas sign.
//
// It promises
//
//   - that a request reaches the runtime it is for, or fails;
//   - that only requests below /app-proxy/, /webhooks/ and /workflows/ pass, with
//     bounded headers and bodies, and not more at a time than Limits say;
//   - that a request is tried a second time only if nothing of it was sent;
//   - that a runtime whose credential is revoked is cut off within five seconds;
//   - that agents are told to move before a replica ends, and that requests that have
//     begun are finished.
//
// It refuses streams that an agent opens beside its control stream, and agents that
// ask for another name than their token's. It does not authorise users: the gateway
// does, before it asks for a Transport.
package hub
