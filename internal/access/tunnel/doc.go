// Package tunnel is the agent's end of the tunnel. It dials the platform and serves
// the requests that the platform sends back over the same connections. The agent
// listens on no port, so the cluster needs no inbound access.
//
// A connection is a WebSocket (RFC 6455), which passes HTTP proxies, with yamux
// streams in it. Each stream has its own flow-control window, so a stream with a slow
// reader blocks only itself. Each stream carries HTTP/1.1, with streaming and
// upgrades. The agent opens one further stream for control: it sends a new token
// there before the old one expires, and receives a drain message before a replica
// shuts down.
//
// It guarantees
//
//   - the configured number of connections, to different replicas of the platform
//     when there are several; two connections share a replica only while no other
//     replica is reachable;
//   - that a connection without incoming data for Timing.Dead is closed, also when
//     the network drops packets silently;
//   - an immediate reconnect when a connection ends, then retries with full-jitter
//     backoff up to Timing.MaxBackoff, so that agents do not reconnect in step;
//   - that requests in flight continue when the platform moves the agent to another
//     replica, and complete when the agent shuts down.
//
// It rejects redirects, TLS before 1.2 and certificates that the configured roots did
// not sign. It does not authorize requests: the handler does.
package tunnel
