// Package h2client speaks HTTP/2 to one endpoint, for callers that speak
// HTTP/1.1. A [Conn] is a connection; each of its streams is a [Stream], which
// is a net.Conn that carries exactly one exchange: the bytes of an HTTP/1.1
// request are written to it, and the bytes of an HTTP/1.1 response are read
// from it. So the edge has one codec, and what is checked once is not checked
// again in another spelling.
//
// The request is read with h1.Head and h1.Body, although it is the edge's own,
// and becomes one HEADERS frame, DATA and trailers. Of the response, a body of
// a known length keeps that length; any other comes in chunks, with its
// trailers. A body that announces trailers or is gRPC comes in chunks even if
// its length is known, because HTTP/1.1 has trailers nowhere else.
//
// It promises:
//   - a response may begin, and end, while the request still goes on;
//   - a request that the endpoint says it has not looked at ends with
//     [ErrRefused]: it may be sent again, whatever it is;
//   - memory of a stream is bounded by a window, that of heads and trailers by
//     h1.Limits, and a stream that nobody reads holds up no other;
//   - Close, Read and deadlines never wait for the endpoint to take bytes;
//   - a connection costs two goroutines, a stream none.
//
// It refuses server push, upgrades (an Upgrade is not passed on, so the
// endpoint answers as if nobody had asked), frames that break the rules of
// RFC 9113, and an endpoint that does not begin with SETTINGS. A connection
// that does not answer a PING is given up, and so is one that makes the edge
// queue more than a thousand answers.
//
// It stands on the frames and HPACK of golang.org/x/net/http2 but not on its
// Transport, which cannot say that a request was refused, stops an upload when
// an error answer comes, and buffers megabytes for each stream.
package h2client
