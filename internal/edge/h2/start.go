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
	"slipway.dev/slipway/internal/edge/h1"
)

// What is wrong with requests, for who serves them.
var (
	errClosedStream = errors.New("the client went on after the end of its request")
	errShort        = errors.New("the body is shorter than its length")
	errLong         = errors.New("the body is longer than its length")
	errWindow       = errors.New("the client does not keep to the windows")
	errGivenUp      = errors.New("the client has given the request up")
)

const (
	// bideAfter is how many requests of a new connection run at once without
	// any of them being held back.
	bideAfter = 16
	// bideTime is how long those beyond are. A flood cuts its requests off long
	// before that, and they cost nothing then; who means it hardly notices.
	bideTime = 10 * time.Millisecond
	// provenAfter is how many answers make a connection one that is not new.
	provenAfter = 100
)

// starter is the part of a session that starts requests. They wait in the queue
// until all that has been read was looked at: one that is reset right behind its
// headers never starts.
type starter struct {
	queue   []*stream
	held    []*stream // those that come with many others on a new connection
	release *time.Timer
	active  int // requests that run
	served  int // those that ended with an answer, up to provenAfter
	running sync.WaitGroup
}

// startRequests starts what is in the queue. It is called with mu held.
func (c *session) startRequests() {
	if c.over || len(c.queue) == 0 {
		return
	}
	waiting := c.queue[:0]
	for _, s := range c.queue {
		switch {
		case s.err != nil:
			// It was given up.
		case c.active >= c.cfg.MaxStreams:
			waiting = append(waiting, s)
		case c.active >= bideAfter && c.served < provenAfter && !s.bided:
			c.hold(s)
		default:
			c.start(s)
		}
	}
	clear(c.queue[len(waiting):])
	c.queue = waiting
}

// hold keeps a request back for a moment.
func (c *session) hold(s *stream) {
	s.bided = true
	c.held = append(c.held, s)
	switch {
	case len(c.held) > 1:
	case c.release == nil:
		c.release = time.AfterFunc(bideTime, c.letGo)
	default:
		c.release.Reset(bideTime)
	}
}

// letGo starts the requests that were kept back.
func (c *session) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, c.held...)
	clear(c.held)
	c.held = c.held[:0]
	c.startRequests()
}

// dropQueued forgets the requests that will never start.
func (c *session) dropQueued() {
	c.queue, c.held = nil, nil
	if c.release != nil {
		c.release.Stop()
	}
}

func (c *session) start(s *stream) {
	s.started = true
	c.active++
	c.running.Add(1)
	c.server.workers.serve(s)
}

// run serves one request.
func (s *stream) run() {
	c := s.session
	defer c.running.Done()
	handler := c.cfg.Handler
	s.reply = c.server.reply(s)
	defer func() {
		problem := recover()
		if problem != nil && problem != http.ErrAbortHandler {
			c.cfg.Log.Error("serving a request panicked", "client", c.remote, "problem", problem, "stack", string(debug.Stack()))
		}
		s.leave(problem == nil)
	}()
	handler.Serve(bridge.NewStream((*lifetime)(s), 2, nil), s)
}

// leave ends a request that is served. An answer that is not complete resets the
// stream, and never ends it; a body that nobody read to its end is stopped.
func (s *stream) leave(returned bool) {
	c := s.session
	_ = s.Close()
	s.call.Lock() // nobody is writing any more
	reply := s.reply
	s.reply = nil
	s.call.Unlock()
	complete := reply.Release() && returned
	c.server.replies.Put(reply)
	c.mu.Lock()
	defer c.mu.Unlock()
	(*lifetime)(s).cancel()
	if c.active--; complete && c.served < provenAfter {
		c.served++
	}
	if c.streams[s.id] == s {
		code := http2.ErrCodeInternal
		if complete {
			c.sendEnd(s)
			code = http2.ErrCodeNo
		}
		c.reset(s, code, net.ErrClosed)
	}
	_ = c.flush() // an error ends the connection
	c.startRequests()
	c.settle()
}

// reset breaks a stream off. It is called with mu held, as is what follows.
func (c *session) reset(s *stream, code http2.ErrCode, why error) {
	c.sendReset(s.id, code)
	s.fail(why)
	c.drop(s)
}

// fail ends what goes on with a stream.
func (s *stream) fail(why error) {
	s.shut(why)
	(*lifetime)(s).cancel()
}

// drop forgets a stream that is over.
func (c *session) drop(s *stream) {
	delete(c.streams, s.id)
	c.settle()
}

// settle looks whether the connection has anything left to do.
func (c *session) settle() {
	if len(c.streams) > 0 || c.active > 0 || c.over {
		return
	}
	if c.allowed != everyStream {
		c.finish(ReasonEnded, http2.ErrCodeNo, c.allowed)
		return
	}
	c.idle()
}

// refuseMore takes no more requests, and tells the client. The connection ends
// when those that run have.
func (c *session) refuseMore() {
	if c.over || c.allowed != everyStream {
		return
	}
	c.allowed = c.last
	c.sendGoAway(c.last, http2.ErrCodeNo)
	c.kick()
	c.settle()
}

// announce tells a client that no more requests will be taken in a while,
// without refusing what it has sent meanwhile (RFC 9113 section 6.8).
func (c *session) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.sendGoAway(everyStream, http2.ErrCodeNo)
		c.kick()
	}
}

// leaveNow takes no more requests.
func (c *session) leaveNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuseMore()
}

// reply lends the memory for an answer.
func (s *Server) reply(to *stream) *bridge.ResponseTranslator {
	reply, ok := s.replies.Get().(*bridge.ResponseTranslator)
	if !ok {
		reply = new(bridge.ResponseTranslator)
	}
	reply.Begin(to, h1.RequestInfo{Head: to.isHead}, &s.limits)
	return reply
}
