// Package h2client speaks HTTP/2 to one endpoint, for callers that speak
// HTTP/1.1. A [Conn] is a connection; each of its streams is a [Stream], which
// is a net.Conn that carries exactly one exchange: the caller writes an
// HTTP/1.1 request to it, and reads an HTTP/1.1 response from it. So the edge
// has one codec, and every check of a message exists once.
//
// The request is parsed with h1.Head and h1.Body, although the edge wrote it
// itself, and becomes one HEADERS frame, DATA and trailers. The body of a
// response keeps its length if that is known; any other body is chunked, with
// its trailers. The body of a response that announces trailers or is gRPC is
// chunked even if its length is known, because only a chunked body of HTTP/1.1
// can have trailers.
//
// It promises:
//   - a response may begin, and end, while the request is still being sent;
//   - a request that the endpoint refused before processing it ends with
//     [ErrRefused]: it may be sent again, even if it is not idempotent;
//   - the memory of a stream is bounded by its window, that of heads and
//     trailers by h1.Limits, and a stream that is not read blocks no other;
//   - Close, Read and deadlines never wait for the endpoint to take bytes;
//   - a connection has one goroutine, and another while a reply to the endpoint waits
//     to be written; a stream has none.
//
// Where an event loop has the socket, the goroutines are tasks of that loop, and so
// may be the users of the streams (decision 0090).
//
// It refuses server push, upgrades (Upgrade is not forwarded, so the endpoint
// responds as if it were not there), frames that break RFC 9113, and an
// endpoint that does not start with SETTINGS. A connection is closed when its
// endpoint does not acknowledge a PING, and when it makes more than a thousand
// control frames wait to be written.
//
// It uses the frames and HPACK of golang.org/x/net/http2 but not its Transport,
// which does not report that a request was refused, stops an upload when an
// error response comes, and buffers megabytes for each stream.
//
// See decision 0009 in docs/decisions: our own HTTP/2 client on the library's
// frames.
package h2client
