// Package h3 serves HTTP/3 to clients. QUIC and the frames are for
// github.com/quic-go/quic-go; requests go to an http.Handler, which on the edge
// is a bridge.Handler.
//
// It promises:
//   - connections, streams, windows, header bytes and handshakes are bounded:
//     [Config] says how;
//   - a client that cuts its requests off again and again (CVE-2023-44487)
//     loses its connection, with a reason that is counted; a request that is
//     cut off takes up its place until it has ended;
//   - addresses have to prove themselves before they cost memory, once many
//     handshakes are open;
//   - Drain loses no request that runs: clients get GOAWAY, and connections are
//     closed when they have been quiet for a moment.
//
// It refuses 0-RTT, because its requests can be replayed, and datagrams. The
// library announces extended CONNECT whatever one does; bridge refuses it.
//
// The library has no dynamic table for QPACK, so headers cannot grow on the way
// in, and its encoder and decoder streams are read no further than their type.
// A second SETTINGS or a reserved frame ends the connection. Unknown frames and
// streams are skipped, bounded by the windows. The library waits without a
// deadline for the headers of a stream: a connection on which no request has
// run for IdleTimeout is closed whatever it has begun to send.
package h3
