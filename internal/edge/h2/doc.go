// Package h2 serves HTTP/2 to clients, on connections that are encrypted or on
// plain ones of clients that know in advance. The frames are for
// golang.org/x/net/http2 to read and write; requests go to an http.Handler,
// which on the edge is a bridge.Handler.
//
// Between the library and the connection stands a guard. It reads along the
// frame headers, both ways, and ends a connection that costs more than it
// asks for. The library answers nearly every frame faithfully, so that what
// is cheap to send would be dear to serve.
//
// It promises:
//   - streams, windows, header bytes and every wait are bounded: [Config] says
//     how;
//   - the floods that are known end their connection, with GOAWAY where it
//     can still be written, and with a reason that is counted: resets
//     (CVE-2023-44487), resets that are provoked (CVE-2025-8671), PING,
//     SETTINGS, PRIORITY, WINDOW_UPDATE, unknown frames, empty DATA,
//     CONTINUATION (CVE-2023-45288);
//   - Drain loses no request: clients are told that no new ones will be taken
//     well before none are, and running ones end by themselves;
//   - ServeConn returns when all handlers of the connection have.
//
// It refuses HTTP/2 by Upgrade from HTTP/1.1, server push and extended CONNECT.
package h2
