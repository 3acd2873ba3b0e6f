// Package h2 serves HTTP/2 to clients, over TLS or on plain connections of
// clients that start with HTTP/2 (prior knowledge). Frames are read, and HPACK
// is encoded and decoded, by golang.org/x/net/http2; the server is our own
// (decision 0011). Each request is composed as an HTTP/1.1 message and given to
// a bridge.Handler as a connection, and the response that is written there is
// translated back.
//
// One goroutine reads a connection. It handles everything that has arrived
// before it starts a request, so that a request whose reset follows its headers
// costs next to nothing. Each running request has a goroutine. A goroutine with
// frames to write takes along those of the others: a small response is one
// write, and so are many that are ready at the same time. A frame accounting
// weighs the frames of both sides and closes a connection that costs more than
// it is worth. Where an event loop has the connection, the goroutines are tasks of
// that loop (decision 0088).
//
// It promises:
//   - streams, windows, header bytes and every wait are bounded by [Config];
//   - a slow reader slows down its writer, in both directions: no more than the
//     windows and a few frames are buffered in between;
//   - the known floods close their connection, with GOAWAY where it can still
//     be written, and with a reason that is counted: resets (CVE-2023-44487),
//     provoked resets (CVE-2025-8671), PING, SETTINGS, PRIORITY, WINDOW_UPDATE,
//     unknown frames, empty DATA, CONTINUATION (CVE-2023-45288), headers that
//     decode to far more than is allowed (CVE-2016-6581), responses that are
//     not read;
//   - a truncated body is an error to its reader, and a truncated response
//     resets its stream: neither looks complete;
//   - Drain loses no request: clients get a notice well before new streams are
//     refused, and running requests end by themselves;
//   - ServeConn returns when all requests of the connection have ended.
//
// It refuses HTTP/2 by Upgrade from HTTP/1.1, server push, CONNECT and extended
// CONNECT. Priorities are ignored: all streams are equal.
package h2
