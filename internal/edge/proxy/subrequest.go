package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// mirrorTimeout bounds one copy of a request, with its answer.
const mirrorTimeout = 30 * time.Second

// backgroundTasks is what runs beside the exchanges.
type backgroundTasks struct {
	stop context.Context // ends with Close
	halt context.CancelFunc

	mu            sync.Mutex
	running       sync.WaitGroup
	copies        atomic.Int64
	sent, dropped atomic.Uint64
}

// enter begins a copy, unless most of them run or the end has come.
func (a *backgroundTasks) enter(most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop.Err() != nil || a.copies.Load() >= int64(most) {
		return false
	}
	a.copies.Add(1)
	a.running.Add(1)
	return true
}

func (a *backgroundTasks) leave() {
	a.copies.Add(-1)
	a.running.Done()
}

func (a *backgroundTasks) close() {
	a.mu.Lock()
	a.halt()
	a.mu.Unlock()
	a.running.Wait()
}

// subrequestClient is a backend that the edge asks something itself. It implements
// [filter.Asker].
type subrequestClient struct {
	proxy  *Proxy
	handle *upstream.Handle
}

// server gives the way to ask a backend.
func (p *Proxy) server(id route.BackendID) filter.SubrequestClient {
	return &subrequestClient{proxy: p, handle: p.cfg.Upstreams.Handle(id)}
}

// Do implements [filter.Asker].
func (s *subrequestClient) Do(q *filter.Subrequest) (*filter.Subresponse, error) {
	visit, err := s.visit(s.proxy)
	if err != nil {
		return nil, err
	}
	framing, length := h1.NoBody, int64(0)
	if body, ok := q.Body.(*bufferedBody); ok && body != nil {
		visit.body = body.share()
		framing, length = h1.Fixed, body.size
	}
	var composer h1.Composer
	composer.Start(visit.out[:0], q.Method, q.Target, visit.host(q.Host, q.FallbackHost))
	for _, field := range q.Fields {
		composer.Field(field.Name, field.Value)
	}
	if visit.out, err = composer.End(framing, length); err != nil {
		visit.end(false)
		return nil, err
	}
	visit.asked = h1.RequestInfo{Head: q.Method == "HEAD"}
	visit.again, visit.most = true, q.MaxResponse
	return visit.run(q.Timeout)
}

// subrequest is one request of the edge's own and its answer.
type subrequest struct {
	proxy *Proxy
	lease upstream.Lease
	conn  *upstream.Conn
	out   []byte // the head
	body  *bufferedBody
	asked h1.RequestInfo
	again bool  // a pooled connection that had died may be replaced
	most  int64 // of the answer's body
	drop  bool  // nobody wants that body
	head  h1.ResponseHead
	frame h1.Body
	reply filter.Subresponse
	into  collector
	drain drain
}

// visit chooses an endpoint. Whoever gets a visit ends it, by running it or by
// end.
func (s *subrequestClient) visit(p *Proxy) (*subrequest, error) {
	lease, err := s.handle.Pick(upstream.PickOptions{})
	if err != nil {
		return nil, err
	}
	return &subrequest{proxy: p, lease: lease}, nil
}

// host is the Host header: the one that is asked for, the backend's, another,
// or the address of the endpoint.
func (v *subrequest) host(asked, other string) string {
	transport := v.lease.Transport()
	switch {
	case asked != "":
		return asked
	case transport.HostOfEndpoint:
		return v.lease.Endpoint().Address()
	case transport.Host != "":
		return transport.Host
	case other != "":
		return other
	}
	return v.lease.Endpoint().Address()
}

// errCut is why a visit ended before its time.
var errCut = errors.New("the answer did not come in time, or the edge is stopping")

// run sends the request and reads the answer, in the given time.
func (v *subrequest) run(timeout time.Duration) (*filter.Subresponse, error) {
	ctx, cancel := context.WithTimeout(v.proxy.background.stop, timeout)
	defer cancel()
	outcome, err := v.try(ctx, timeout, false)
	if err != nil && v.again && v.conn != nil && v.conn.Reused() && beforeFirstByte(err) && ctx.Err() == nil {
		v.conn.Close()
		outcome, err = v.try(ctx, timeout, true)
	}
	if err != nil {
		v.lease.Done(outcome)
		v.end(false)
		return nil, err
	}
	if v.head.Status >= 500 {
		outcome = upstream.ServerError
	}
	v.lease.Done(outcome)
	v.reply = filter.Subresponse{Head: &v.head, Body: v.into.data, Truncated: v.into.over, Release: func() { v.end(!v.into.over) }}
	return &v.reply, nil
}

// try makes one attempt.
func (v *subrequest) try(ctx context.Context, timeout time.Duration, fresh bool) (upstream.Outcome, error) {
	v.conn = nil
	conn, err := v.lease.Connect(ctx, timeout, fresh)
	if err != nil {
		return upstream.ConnectFailed, err
	}
	v.conn = conn
	conn.SetTimeouts(timeout, timeout)
	// Closing the connection ends every wait.
	stop := context.AfterFunc(ctx, func() { conn.NetConn().Close() })
	err = v.talk(conn)
	if !stop() {
		return upstream.TimedOut, errCut
	}
	switch {
	case err == nil:
		return upstream.OK, nil
	case isTimeout(err), errors.Is(err, h1.ErrIdle):
		return upstream.TimedOut, err
	}
	return upstream.Reset, err
}

// talk writes the request and reads the answer.
func (v *subrequest) talk(conn *upstream.Conn) error {
	if err := conn.Writer.Queue(v.out); err != nil {
		return err
	}
	if v.body != nil {
		if err := v.body.each(conn.Writer.Queue); err != nil {
			return err
		}
	}
	if err := conn.Writer.Flush(); err != nil {
		return err
	}
	for interim := 0; ; interim++ {
		if err := conn.Reader.ReadResponse(&v.head, v.asked, conn.Limits); err != nil {
			return err
		}
		if !v.head.Interim() {
			break
		}
		if interim == h1.MaxInterim {
			return errInterim
		}
	}
	v.lease.ResponseStarted()
	if v.head.Framing == h1.NoBody {
		return nil
	}
	v.into = collector{memory: &v.proxy.memory, most: v.most, drop: v.drop}
	if v.head.Framing == h1.Fixed && v.head.Length > v.most {
		v.into.over = true
		return nil
	}
	v.frame.Reset(v.head.Framing, v.head.Length, true, conn.Limits)
	err := (&h1.Transfer{From: conn.Reader, To: v.drain.into(&v.into, v.proxy.cfg.Pool), Body: &v.frame}).Run()
	if v.into.over {
		return nil
	}
	return err
}

// end gives back what the visit has. The connection can be used again after a
// clean one.
func (v *subrequest) end(clean bool) {
	v.lease.Done(upstream.Cancelled) // no effect if it has ended
	if v.conn != nil {
		if clean && v.head.Reusable {
			v.conn.Release()
		} else {
			v.conn.Close()
		}
		v.conn = nil
	}
	v.body.release()
	v.body = nil
	if v.into.memory != nil {
		v.into.memory.give(v.into.taken)
		v.into = collector{}
	}
}

// collector keeps a body in one piece, as far as it is allowed to.
type collector struct {
	memory *memory
	most   int64
	size   int64
	data   []byte
	taken  int64
	over   bool
	drop   bool // it is only counted
}

// Write implements [io.Writer]. It fails when the body is too large.
func (w *collector) Write(piece []byte) (int, error) {
	if w.size += int64(len(piece)); w.size > w.most {
		w.over = true
		return 0, h1.ErrBodyTooLarge
	}
	if w.drop {
		return len(piece), nil
	}
	if need := int(w.size); need > cap(w.data) {
		room := max(need, min(2*cap(w.data), int(w.most)), smallPiece)
		if !w.memory.take(int64(room) - w.taken) {
			return 0, errMemory
		}
		w.taken = int64(room)
		w.data = append(make([]byte, 0, room), w.data...)
	}
	w.data = append(w.data, piece...)
	return len(piece), nil
}
