// Package listener is the accept side of the edge: it accepts connections from
// the kernel, finds the client's address and protocol, and counts connections
// until they are closed.
//
// [Listen] opens a socket; [Listener.Accept] returns connections whose PROXY
// header, if there has to be one, is already read. [Conn.Peek] reads the first
// bytes ahead to detect TLS with its server name, HTTP/1.1 or HTTP/2. [Handoff]
// passes connections on to an http.Server. [Listener.Drain] shuts everything
// down gracefully.
//
// It promises:
//   - a read deadline is set before the first byte, on every connection, and
//     holds until its next owner sets another;
//   - no connection costs more than 16 KiB before it is handed over;
//   - the number of connections is bounded, and those beyond it are counted;
//   - running out of file descriptors delays connections and stops nothing;
//   - connections are counted until they are closed, also hijacked ones.
//
// It refuses PROXY headers from addresses that are not trusted, and every
// header and ClientHello that does not follow its specification exactly: a
// lenient parser is one that disagrees with the next one.
package listener
