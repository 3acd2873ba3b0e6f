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

// DefaultHeadTimeout is how long a request of HTTP/3 has to show whether it
// has a body.
const DefaultHeadTimeout = 10 * time.Second

// Stream is what is known about a stream besides what is said on it.
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
	// Serve answers the one request that comes on conn, and returns when it is
	// over. It closes conn, and no goroutine of its own uses conn after it has
	// returned. A stream is not over before that, so it does not dawdle.
	Serve func(s Stream, conn net.Conn)
	// Pool lends the buffers.
	Pool *h1.BufferPool
	// Limits are those that responses were held to when they came from a
	// backend. A head that is written may be twice as large: filters add to it.
	// Default h1.DefaultLimits. Requests are bounded by the protocol's server,
	// and by who reads them from conn.
	Limits h1.Limits
	// HeadTimeout bounds the wait for the first byte of a body, or for its
	// end, of a request of HTTP/3 whose method has a body rarely. Default 10 s.
	HeadTimeout time.Duration
	// Refused is told of requests that are answered here, because they cannot
	// be composed. It may be nil.
	Refused func(r *http.Request, err error)

	streams sync.Pool
}

// stream is the memory of one exchange. The conn that is given out is not part
// of it: who keeps that for too long must not meet another client's stream.
type stream struct {
	upload   upload
	response ResponseTranslator
	writer   writer
}

// ServeHTTP answers one stream of HTTP/3. It panics with http.ErrAbortHandler, which
// resets the stream, when the response was not written to its end.
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
		// Serve may have panicked: then too nobody may touch the stream any
		// more, and the library resets it.
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

// refuse answers a request that cannot be composed. What has no answer, such
// as a client that is gone, gets none.
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
	// A client that is gone needs no answer.
	_, _ = io.WriteString(w, text)
}

func (h *Handler) headTimeout() time.Duration {
	if h.HeadTimeout > 0 {
		return h.HeadTimeout
	}
	return DefaultHeadTimeout
}
