// Package bridge lets requests of HTTP/2 and HTTP/3 be served by what serves
// HTTP/1.1. The message of HTTP/1.1 is the edge's model of an exchange: one
// parser, one normaliser and one set of filters judge every request, so that
// nothing gets past them in a translation.
//
// A stream becomes a net.Conn on which exactly one request comes, composed by
// h1.Composer, and whose written response is translated back by a [Reply]. The
// server of HTTP/2 is our own and makes the conn itself; for that of HTTP/3 a
// [Handler], which is an http.Handler, does.
//
// It promises:
//   - the request says what the client said: the target is the client's :path
//     byte for byte, and the length of the body is the one that the stream has;
//   - a body that breaks off is an error to who reads it, and never its end; a
//     response that breaks off resets the stream, and never ends it;
//   - what is written goes out when the write ends: nothing waits for more;
//   - a reader that is slow slows down its writer, both ways: no more than the
//     windows of the protocol and one buffer are held in between;
//   - a deadline, or Close, ends a Read or Write that waits, and no deadline
//     counts against a client while nobody waits for it;
//   - no goroutine runs for a stream but the library's own.
//
// It refuses what cannot be said in HTTP/1.1 without two readings: fields about
// a connection, two Hosts that differ, a length that is not the stream's,
// CONNECT. On the way back it refuses 101, and responses whose end only the end
// of a connection would show.
package bridge
