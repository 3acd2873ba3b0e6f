// Package h2 serves HTTP/2 to clients, on connections that are encrypted or on
// plain ones of clients that know in advance. Frames are read, and headers packed
// and unpacked, by golang.org/x/net/http2; the server is our own. Each request is
// composed as one of HTTP/1.1 and given to a bridge.Handler as a connection, and
// the answer that is written there is translated back (decision 0011).
//
// One goroutine reads a connection. It looks at all that has come before it
// starts anything, so that a request that is reset right behind its headers costs
// next to nothing. Each request that runs has a goroutine, and who has something
// to write takes along what others have: a small answer is one write, and many at
// a time are too. A ledger weighs the frames of both sides, and ends a connection
// that costs more than it asks for.
//
// It promises:
//   - streams, windows, header bytes and every wait are bounded: [Config] says
//     how;
//   - a reader that is slow slows down its writer, both ways: no more than the
//     windows and a few frames are held in between;
//   - the floods that are known end their connection, with GOAWAY where it
//     can still be written, and with a reason that is counted: resets
//     (CVE-2023-44487), resets that are provoked (CVE-2025-8671), PING,
//     SETTINGS, PRIORITY, WINDOW_UPDATE, unknown frames, empty DATA,
//     CONTINUATION (CVE-2023-45288), headers that unpack to far more than is
//     allowed (CVE-2016-6581), answers that nobody reads;
//   - a body that breaks off is an error to who reads it, and an answer that
//     breaks off resets its stream: neither looks complete;
//   - Drain loses no request: clients are told that no new ones will be taken
//     well before none are, and running ones end by themselves;
//   - ServeConn returns when all requests of the connection have ended.
//
// It refuses HTTP/2 by Upgrade from HTTP/1.1, server push, CONNECT and extended
// CONNECT. Priorities are ignored: streams take turns.
package h2
