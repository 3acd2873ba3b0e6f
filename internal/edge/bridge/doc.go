// Package bridge lets the code for HTTP/1.1 serve requests of HTTP/2 and HTTP/3.
// The HTTP/1.1 message is the edge's model of an exchange: one parser, one
// normaliser and one set of filters see every request, so that nothing gets past
// them in a translation (decision 0008).
//
// A stream becomes a net.Conn on which exactly one request comes, composed by
// h1.Composer, and whose written response is translated back by a
// [ResponseTranslator]. The server of HTTP/2 is our own and makes the conn itself;
// for that of HTTP/3 a [Handler], which is an http.Handler, does.
//
// It guarantees:
//   - the request is the client's: the target is the client's :path
//     byte for byte, and the length of the body is the one that the stream has;
//   - a body that breaks off is an error for its reader, and never its end; a
//     response that breaks off resets the stream, and never ends it;
//   - every write is flushed when it returns: nothing waits for more;
//   - a reader that is slow slows down its writer, both ways: no more than the
//     windows of the protocol and one buffer are held in between;
//   - a deadline, or Close, ends a Read or Write that waits, and no deadline
//     runs against a client while no call waits for it;
//   - no goroutine runs for a stream but the library's own.
//
// It refuses what has no unambiguous form in HTTP/1.1: fields about
// a connection, two Hosts that differ, a length that is not the stream's,
// CONNECT. On the way back it refuses 101, and responses whose end only the end
// of a connection would show.
package bridge
