// Package h3 serves HTTP/3 to clients. github.com/quic-go/quic-go implements
// QUIC and the frames; requests go to an http.Handler, which on the edge is a
// bridge.Handler.
//
// It promises:
//   - connections, streams, windows, header bytes and handshakes are bounded by
//     [Config];
//   - the connection of a client that cancels its requests again and again
//     (CVE-2023-44487) is closed, with a reason that is counted; a cancelled
//     request counts as a stream until its handler has returned;
//   - clients have to validate their addresses before they cost memory, once
//     many handshakes are open;
//   - Drain loses no running request: clients get GOAWAY, and connections are
//     closed when no request has run for a moment.
//
// It refuses 0-RTT, because its requests can be replayed, and datagrams. The
// library announces extended CONNECT unconditionally; bridge refuses it.
//
// The library has no dynamic table for QPACK, so decoded headers cannot grow
// beyond what was sent, and it reads encoder and decoder streams no further
// than their type. A second SETTINGS or a reserved frame closes the connection.
// Unknown frames and streams are skipped, bounded by the windows. The library
// waits without a deadline for the headers of a stream: a connection on which
// no request has run for IdleTimeout is closed even if it has begun to send
// one.
package h3
