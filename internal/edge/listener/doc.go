// Package listener is the accept side of the edge: it takes connections from
// the kernel, learns who the client is and what it wants to speak, and keeps
// count of them until they are closed.
//
// [Listen] opens a socket; [Listener.Accept] gives connections whose PROXY
// header, if there has to be one, is already read. [Conn.Peek] looks at the
// first bytes without taking them: TLS with its server name, HTTP/1.1 or
// HTTP/2. [Handoff] passes connections on to an http.Server. [Listener.Drain]
// ends it all in good order.
//
// It promises:
//   - a read deadline is set before the first byte, on every connection, and
//     stays until its next owner sets another;
//   - no connection costs more than 16 KiB before it is handed over;
//   - the number of connections is bounded, and those beyond it are counted;
//   - running out of file descriptors delays connections and ends nothing;
//   - connections are counted until they are closed, hijacked ones too.
//
// It refuses PROXY headers from addresses that are not trusted, and every
// header and ClientHello that is not exactly as its specification says: a
// lenient reader is one that disagrees with the next one.
package listener
