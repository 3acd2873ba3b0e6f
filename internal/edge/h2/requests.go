package h2

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
)

// The errors that handlers get while they read a request.
var (
	errClosedStream = httperr.Reset(http2.ErrCodeStreamClosed, "closed_stream", "the client sent more after the end of its request")
	errShort        = httperr.Reset(http2.ErrCodeProtocol, "body_short", "the body is shorter than its content-length")
	errLong         = httperr.Reset(http2.ErrCodeProtocol, "body_long", "the body is longer than its content-length")
	errWindow       = httperr.Reset(http2.ErrCodeFlowControl, "window", "the client exceeded a flow control window")
	errCanceled     = errors.New("the client cancelled the request")
)

const (
	// delayAfter is how many requests of a new connection run at once before
	// further ones are delayed.
	delayAfter = 16
	// startDelay is the length of that delay. A rapid-reset flood cancels its
	// requests long before it is over, so they cost nothing; an honest client
	// hardly notices it.
	startDelay = 10 * time.Millisecond
	// provenAfter is how many complete responses make a connection one that is
	// not new.
	provenAfter = 100
)

// requestQueue starts requests. They wait in the queue until everything that
// was read with them has been handled: a request whose reset follows its
// headers never starts. The session's mu guards it.
type requestQueue struct {
	queue   []*stream
	delayed []*stream // requests that came with many others on a new connection
	timer   *time.Timer
	active  int // requests that run
	served  int // requests with a complete response, up to provenAfter
	running sync.WaitGroup
}

// startRequests starts what is in the queue. It is called with mu held, by a task or by a
// goroutine.
func (c *session) startRequests(by *eventloop.Task) {
	q := &c.requests
	if c.over || len(q.queue) == 0 {
		return
	}
	waiting := q.queue[:0]
	for _, s := range q.queue {
		switch {
		case s.err != nil:
			// The client cancelled it.
		case q.active >= c.cfg.MaxStreams:
			waiting = append(waiting, s)
		case q.active >= delayAfter && q.served < provenAfter && !s.delayed:
			c.delay(s)
		default:
			c.start(s, by)
		}
	}
	clear(q.queue[len(waiting):])
	q.queue = waiting
}

// delay puts a request off by startDelay. One timer serves all that are delayed
// within that time.
func (c *session) delay(s *stream) {
	q := &c.requests
	s.delayed = true
	q.delayed = append(q.delayed, s)
	switch {
	case len(q.delayed) > 1:
	case q.timer == nil:
		q.timer = time.AfterFunc(startDelay, c.startDelayed)
	default:
		q.timer.Reset(startDelay)
	}
}

// startDelayed starts the requests that were delayed.
func (c *session) startDelayed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &c.requests
	q.queue = append(q.queue, q.delayed...)
	clear(q.delayed)
	q.delayed = q.delayed[:0]
	c.startRequests(nil)
}

// dropQueued forgets the requests that will never start.
func (c *session) dropQueued() {
	c.requests.queue, c.requests.delayed = nil, nil
	if c.requests.timer != nil {
		c.requests.timer.Stop()
	}
}

func (c *session) start(s *stream, by *eventloop.Task) {
	s.started = true
	c.requests.active++
	c.requests.running.Add(1)
	if !c.startLooped(s, by) {
		c.server.workers.Serve(s)
	}
}

// run serves one request, in a goroutine of the workers or as a task of an event loop.
func (s *stream) run() {
	c := s.session
	defer c.requests.running.Done()
	handler := c.cfg.Handler
	defer func() {
		problem := recover()
		if problem != nil && problem != http.ErrAbortHandler {
			c.cfg.Log.Error("request handler panicked", "client", c.remote, "problem", problem, "stack", string(debug.Stack()))
		}
		s.finish(problem == nil)
	}()
	handler.Serve(bridge.NewStream((*streamContext)(s), 2, nil), s)
}

// finish ends a request after its handler. A response that is not complete
// resets the stream and never ends it, so that it cannot be taken for a
// complete one; the rest of a body that was not read is stopped.
func (s *stream) finish(returned bool) {
	c := s.session
	_ = s.Close()
	s.writeMu.Lock() // no Write runs any more
	reply := s.reply
	s.reply = nil
	s.writeMu.Unlock()
	written := reply != nil && reply.Release()
	if reply != nil {
		c.server.replies.Put(reply)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Without a Write, SendResponse may have sent all.
	complete := returned && (written || reply == nil && s.complete)
	(*streamContext)(s).cancel()
	if c.requests.active--; complete && c.requests.served < provenAfter {
		c.requests.served++
	}
	s.finishLooped()
	if c.streams.open[s.id] == s {
		code := http2.ErrCodeInternal
		if complete {
			c.sendEnd(s)
			code = http2.ErrCodeNo
		}
		c.reset(s, code, net.ErrClosed)
	}
	_ = c.flush(s.task) // an error closes the connection
	c.startRequests(s.task)
	c.checkIdle()
}

// resetBroken resets a stream whose client broke a rule. It is called with mu
// held, as are the functions below.
func (c *session) resetBroken(s *stream, why *httperr.Error) { c.reset(s, why.Code, why) }

// reset breaks a stream off.
func (c *session) reset(s *stream, code http2.ErrCode, why error) {
	c.sendReset(s.id, code)
	s.fail(why)
	c.remove(s)
}

// fail ends reading and writing of a stream, and cancels its context.
func (s *stream) fail(why error) {
	s.closeWith(why)
	(*streamContext)(s).cancel()
}

// remove takes a stream that has ended out of the table.
func (c *session) remove(s *stream) {
	delete(c.streams.open, s.id)
	c.checkIdle()
}

// checkIdle closes a connection that drains once its last request has ended,
// and starts the idle timeout of any other.
func (c *session) checkIdle() {
	if len(c.streams.open) > 0 || c.requests.active > 0 || c.over {
		return
	}
	if !c.streams.accepting() {
		c.goAway(ReasonEnded, http2.ErrCodeNo, c.streams.allowed)
		return
	}
	c.startIdle()
}

// refuseNewStreams sends GOAWAY with the last stream that is served. The
// connection is closed when the running requests have ended.
func (c *session) refuseNewStreams() {
	if c.over || !c.streams.accepting() {
		return
	}
	c.streams.allowed = c.streams.last
	c.writer.GoAway(c.streams.last, http2.ErrCodeNo)
	c.writer.FlushAsync(nil)
	c.checkIdle()
}

// announceDrain is the first step of a graceful shutdown: a GOAWAY that refuses
// no stream, so that requests that are already on their way are still served
// (RFC 9113 section 6.8).
func (c *session) announceDrain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.writer.GoAway(allStreams, http2.ErrCodeNo)
		c.writer.FlushAsync(nil)
	}
}

// drain is the second step: new streams are refused.
func (c *session) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuseNewStreams()
}

// reply lends the memory for a response.
func (s *Server) reply(to *stream) *bridge.ResponseTranslator {
	reply, ok := s.replies.Get().(*bridge.ResponseTranslator)
	if !ok {
		reply = new(bridge.ResponseTranslator)
	}
	reply.Begin(to, h1.RequestInfo{Head: to.isHead}, &s.limits)
	return reply
}
