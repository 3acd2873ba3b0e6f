package bridge

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// DefaultHeadTimeout is how long the edge waits for the first byte of the body of an
// HTTP/3 request, or for its end.
const DefaultHeadTimeout = 10 * time.Second

// Stream is the metadata of a stream.
type Stream struct {
	// Major is the protocol: 2 or 3.
	Major int
	// TLS is how a connection of HTTP/3 is encrypted, nil for HTTP/2.
	TLS *tls.ConnectionState

	context context.Context
}

// NewStream describes a stream that lasts as long as ctx.
func NewStream(ctx context.Context, major int, state *tls.ConnectionState) Stream {
	return Stream{Major: major, TLS: state, context: ctx}
}

// Context ends with the stream. It comes from that of the connection.
func (s Stream) Context() context.Context { return s.context }

// Handler serves the streams of HTTP/2 and HTTP/3. It is ready once its fields
// are set, and must not be copied after that.
type Handler struct {
	// Serve serves the one request that comes on conn, and returns when it is over.
	// It closes conn, and none of its goroutines uses conn after it has returned.
	// The stream ends when Serve returns.
	Serve func(s Stream, conn net.Conn)
	// Pool lends the buffers.
	Pool *h1.BufferPool
	// Limits are those of responses from backends. A head that is written may be
	// twice as large: filters add to it. Default h1.DefaultLimits. Requests are
	// bounded by the protocol's server, and by the reader of conn.
	Limits h1.Limits
	// HeadTimeout bounds the wait for the first byte of a body, or for its end, of a
	// request of HTTP/3 whose method rarely has a body. Default 10 s.
	HeadTimeout time.Duration
	// Refused is called for requests that are refused here, because they cannot be
	// composed. It may be nil.
	Refused func(r *http.Request, err error)

	streams sync.Pool
}

// stream is the memory of one exchange, which is pooled. The conn is not part of it:
// a caller that keeps a conn for too long must not reach another client's stream.
type stream struct {
	upload   upload
	response ResponseTranslator
	writer   writer
}

// ServeHTTP implements [http.Handler] for one stream of HTTP/3. It panics with
// http.ErrAbortHandler, which resets the stream, when the response was not written to
// its end.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, _ := h.streams.Get().(*stream)
	if s == nil {
		s = new(stream)
	}
	control := http.NewResponseController(w)
	s.upload.begin(h, r, control)
	if err := s.upload.compose(); err != nil {
		s.upload.release()
		h.refuse(w, r, err)
		return
	}
	s.writer.begin(w, r, control)
	limits := cmp.Or(h.Limits, h1.DefaultLimits())
	s.response.Begin(&s.writer, h1.RequestInfo{Head: r.Method == http.MethodHead}, &limits)
	conn := newConn(r.Context(), s, control)
	returned := false
	defer func() {
		// Also after a panic of Serve, which makes the library reset the stream, no
		// call may use the stream any more.
		conn.finish()
		s.upload.release()
		complete := s.response.Release()
		s.writer = writer{}
		h.streams.Put(s)
		if returned && !complete {
			panic(http.ErrAbortHandler)
		}
	}()
	h.Serve(NewStream(r.Context(), r.ProtoMajor, r.TLS), conn)
	returned = true
}

// refuse responds to a request that cannot be composed. A client that is gone gets
// no response.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := h1.StatusOf(err)
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	if h.Refused != nil {
		h.Refused(r, err)
	}
	text := http.StatusText(status) + "\n"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	// An error means that the client is gone.
	_, _ = io.WriteString(w, text)
}

// headTimeout returns the timeout, or its default.
func (h *Handler) headTimeout() time.Duration {
	if h.HeadTimeout > 0 {
		return h.HeadTimeout
	}
	return DefaultHeadTimeout
}
