package proxy

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// subrequestClient sends the edge's own requests to one backend: for
// authentication and error pages through [filter.SubrequestClient], and for
// mirrors. They use the same pools, health and limits as proxied requests.
type subrequestClient struct {
	proxy  *Proxy
	handle *upstream.Handle
}

// subrequestClient returns the client for a backend.
func (p *Proxy) subrequestClient(id route.BackendID) filter.SubrequestClient {
	return &subrequestClient{proxy: p, handle: p.cfg.Upstreams.Handle(id)}
}

// Do implements [filter.SubrequestClient].
func (s *subrequestClient) Do(q *filter.Subrequest) (*filter.Subresponse, error) {
	request, err := s.pick(s.proxy)
	if err != nil {
		return nil, err
	}
	framing, length := h1.NoBody, int64(0)
	if body, ok := q.Body.(*bufferedBody); ok && body != nil {
		request.body = body.share()
		framing, length = h1.Fixed, body.size
	}
	var composer h1.Composer
	composer.Start(request.out[:0], q.Method, q.Target, request.host(q.Host, q.FallbackHost))
	for _, field := range q.Fields {
		composer.Field(field.Name, field.Value)
	}
	if s.proxy.cfg.Hop != "" {
		composer.Field(hopField, s.proxy.cfg.Hop)
	}
	if request.out, err = composer.End(framing, length); err != nil {
		request.end(false)
		return nil, err
	}
	request.info = h1.RequestInfo{Head: q.Method == "HEAD"}
	request.retryStale, request.maxResponse = true, q.MaxResponse
	return request.run(q.Timeout)
}

// subrequest is one request of the edge's own and its response.
type subrequest struct {
	proxy       *Proxy
	lease       upstream.Lease
	conn        *upstream.Conn
	out         []byte // the head
	body        *bufferedBody
	info        h1.RequestInfo
	retryStale  bool  // a pooled connection that had died may be replaced
	maxResponse int64 // bytes of the response's body
	discard     bool  // the response's body is read and not kept
	head        h1.ResponseHead
	frame       h1.Body
	response    filter.Subresponse
	into        collector
	sink        sinkWriter
}

// pick chooses an endpoint. The caller owns the subrequest and ends it, by run or
// by end.
func (s *subrequestClient) pick(p *Proxy) (*subrequest, error) {
	lease, err := s.handle.Pick(upstream.PickOptions{})
	if err != nil {
		return nil, err
	}
	return &subrequest{proxy: p, lease: lease}, nil
}

// host is the Host header: the wanted one, the backend's, the fallback, or the
// address of the endpoint.
func (r *subrequest) host(wanted, fallback string) string {
	transport := r.lease.Transport()
	switch {
	case wanted != "":
		return wanted
	case transport.HostOfEndpoint:
		return r.lease.Endpoint().Address()
	case transport.Host != "":
		return transport.Host
	case fallback != "":
		return fallback
	}
	return r.lease.Endpoint().Address()
}

// errSubrequestTimeout is why a sub-request ended before its response.
var errSubrequestTimeout = errors.New("the response did not come in time, or the edge is stopping")

// run sends the request and reads the response, within the timeout. It ends the
// subrequest on an error; otherwise closing the response does.
func (r *subrequest) run(timeout time.Duration) (*filter.Subresponse, error) {
	ctx, cancel := context.WithTimeout(r.proxy.background.stop, timeout)
	defer cancel()
	outcome, err := r.try(ctx, timeout, false)
	if err != nil && r.retryStale && r.conn != nil && r.conn.Reused() && beforeFirstByte(err) && ctx.Err() == nil {
		r.conn.Close()
		outcome, err = r.try(ctx, timeout, true)
	}
	if err != nil {
		r.lease.Done(outcome)
		r.end(false)
		return nil, err
	}
	if r.head.Status >= 500 {
		outcome = upstream.ServerError
	}
	r.lease.Done(outcome)
	truncated := r.into.truncated
	r.response = filter.Subresponse{Head: &r.head, Body: r.into.data, Truncated: truncated, Release: func() { r.end(!truncated) }}
	return &r.response, nil
}

// try makes one attempt.
func (r *subrequest) try(ctx context.Context, timeout time.Duration, fresh bool) (upstream.Outcome, error) {
	r.conn = nil
	conn, err := r.lease.Connect(ctx, timeout, fresh)
	if err != nil {
		return upstream.ConnectFailed, err
	}
	r.conn = conn
	conn.SetTimeouts(timeout, timeout)
	// Closing the connection ends every wait.
	stop := context.AfterFunc(ctx, func() { conn.NetConn().Close() })
	err = r.roundTrip(conn)
	if !stop() {
		return upstream.TimedOut, errSubrequestTimeout
	}
	switch {
	case err == nil:
		return upstream.OK, nil
	case isTimeout(err), errors.Is(err, h1.ErrIdle):
		return upstream.TimedOut, err
	}
	return upstream.Reset, err
}

// roundTrip writes the request and reads the response. A response whose body is
// over the limit is truncated, which is no error of the endpoint.
func (r *subrequest) roundTrip(conn *upstream.Conn) error {
	if err := r.write(conn); err != nil {
		return err
	}
	for interim := 0; ; interim++ {
		if err := conn.Reader.ReadResponse(&r.head, r.info, conn.Limits); err != nil {
			return err
		}
		if !r.head.Interim() {
			break
		}
		if interim == h1.MaxInterim {
			return errInterim
		}
	}
	r.lease.ResponseStarted()
	if r.head.Framing == h1.NoBody {
		return nil
	}
	r.into = collector{memory: &r.proxy.memory, limit: r.maxResponse, discard: r.discard}
	if r.head.Framing == h1.Fixed && r.head.Length > r.maxResponse {
		r.into.truncated = true
		return nil
	}
	r.frame.Reset(r.head.Framing, r.head.Length, true, conn.Limits)
	err := (&h1.Transfer{From: conn.Reader, To: r.sink.to(&r.into, r.proxy.cfg.Pool), Body: &r.frame}).Run()
	if r.into.truncated {
		return nil
	}
	return err
}

// write sends the head and the body.
func (r *subrequest) write(conn *upstream.Conn) error {
	if err := conn.Writer.Queue(r.out); err != nil {
		return err
	}
	if r.body != nil {
		if err := r.body.Each(conn.Writer.Queue); err != nil {
			return err
		}
	}
	return conn.Writer.Flush()
}

// end gives back what the subrequest holds. The connection can be used again
// after a clean one.
func (r *subrequest) end(clean bool) {
	r.lease.Done(upstream.Cancelled) // no effect if it has ended
	if r.conn != nil {
		if clean && r.head.Reusable {
			r.conn.Release()
		} else {
			r.conn.Close()
		}
		r.conn = nil
	}
	r.body.release()
	r.body = nil
	if r.into.memory != nil {
		r.into.memory.give(r.into.taken)
		r.into = collector{}
	}
}

// collector keeps a body in one piece, up to its limit. Its memory counts against
// that of all buffered bodies.
type collector struct {
	memory    *memory
	limit     int64
	size      int64
	data      []byte
	taken     int64
	truncated bool
	discard   bool // the body is only counted
}

// Write implements [io.Writer]. It fails when the body is too large.
func (w *collector) Write(piece []byte) (int, error) {
	if w.size += int64(len(piece)); w.size > w.limit {
		w.truncated = true
		return 0, h1.ErrBodyTooLarge
	}
	if w.discard {
		return len(piece), nil
	}
	if need := int(w.size); need > cap(w.data) {
		room := max(need, min(2*cap(w.data), int(w.limit)), smallPiece)
		if !w.memory.take(int64(room) - w.taken) {
			return 0, errMemory
		}
		w.taken = int64(room)
		w.data = append(make([]byte, 0, room), w.data...)
	}
	w.data = append(w.data, piece...)
	return len(piece), nil
}
