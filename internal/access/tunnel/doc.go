// Package tunnel is the agent's end of the tunnel: it dials the platform and
// serves the requests that the platform sends back over the same connections.
// Nothing listens on a port, so a cluster needs no way in.
//
// A connection is a WebSocket, which passes proxies, with yamux streams in it,
// which have windows of their own: a stream that nobody reads stops itself and no
// other. Each stream carries HTTP/1.1, with streaming and upgrades. One more
// stream, opened by the agent, is for control: the agent presents its token there
// again before the old one expires, and hears when a replica is about to end.
//
// It promises
//
//   - as many connections as asked for, to different replicas of the platform when
//     there are several; two go to the same one only while no other is reachable;
//   - that a connection over which nothing comes for Timing.Dead is given up, also
//     when the network swallows packets without a word;
//   - to try again at once when a connection ends, and then after random times that
//     grow to Timing.Slowest, so that many agents do not come back in step;
//   - that requests go on when the platform moves the agent to another replica, and
//     are finished when the agent ends.
//
// It refuses redirects, TLS before 1.2 and certificates that the given roots do not
// vouch for. It does not know what the requests are for: the handler checks them.
package tunnel
