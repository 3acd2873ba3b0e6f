package h2

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
)

// Server serves connections of HTTP/2. It does not listen.
type Server struct {
	cfg Config
	// strict is cfg for clients on probation.
	strict    Config
	probation probation
	lib       library

	draining atomic.Bool
	mu       sync.Mutex // guards sessions
	sessions map[*session]struct{}
}

// New makes a Server.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), sessions: make(map[*session]struct{})}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	s.strict = s.cfg.strict()
	var err error
	if s.lib, err = newLibrary(&s.cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeConn serves a connection whose handshake, if it has one, is done. It
// returns when the connection has ended and all its requests have, and closes
// conn. The contexts of requests come from ctx.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) {
	// Nothing is read before it has a deadline. The first frame lifts it.
	if conn.SetReadDeadline(time.Now().Add(s.cfg.FirstTimeout)) != nil {
		conn.Close()
		return
	}
	client, known := s.client(conn)
	cfg := &s.cfg
	if known && s.probation.has(client, time.Now()) {
		cfg = &s.strict
	}
	c := &session{server: s, guard: newGuard(conn, cfg)}
	c.idle = time.AfterFunc(s.cfg.IdleTimeout, c.endIdle)
	s.add(c)
	s.lib.serve(bridge.WithAddresses(ctx, conn.LocalAddr(), conn.RemoteAddr()), c.guard.facade(), c)
	s.remove(c)
	c.wait()
	why := c.guard.why()
	if known && flood(why) {
		s.probation.add(client, time.Now())
	}
	if s.cfg.Hooks.Closed != nil {
		s.cfg.Hooks.Closed(why)
	}
}

// client is who may be put on probation for a connection: not a proxy, which
// speaks for many.
func (s *Server) client(conn net.Conn) (netip.Prefix, bool) {
	client, known := clientOf(conn.RemoteAddr())
	if known && s.cfg.Trusts != nil && s.cfg.Trusts(client.Addr()) {
		return netip.Prefix{}, false
	}
	return client, known
}

func (s *Server) add(c *session) {
	if s.cfg.Hooks.Opened != nil {
		s.cfg.Hooks.Opened()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.late = s.draining.Load()
	s.sessions[c] = struct{}{}
}

func (s *Server) remove(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
}

// Len is the number of connections.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Drain asks every client to go, and returns at once. Each is told that no new
// requests will be taken, and after DrainNotice none are; the connection is
// closed when those that run have ended. Connections that come later are told
// with the first answer. Len says when all are gone.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Swap(true) {
		return
	}
	for c := range s.sessions {
		c.guard.notice.Store(true)
		// A client that takes no bytes keeps nobody else waiting.
		c.running.Go(c.guard.announce)
	}
	time.AfterFunc(s.cfg.DrainNotice, s.lib.goAway)
}

// Close ends all connections, whatever they are doing.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.guard.Conn.Close()
	}
}

// session is one connection and the requests that run on it.
type session struct {
	server *Server
	guard  *guard
	late   bool // it came after Drain

	mu      sync.Mutex // guards over and active
	over    bool
	active  int // requests that run
	served  int // requests that ended with an answer, up to provenAfter
	running sync.WaitGroup
	idle    *time.Timer // ends the connection
}

// ServeHTTP answers one request of the connection.
func (c *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		panic(http.ErrAbortHandler)
	}
	answered := false
	defer func() { c.leave(answered) }()
	if !c.bide(r.Context()) {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	if c.late {
		w = leaving{w}
	}
	c.server.cfg.Handler.ServeHTTP(w, r)
	answered = r.Context().Err() == nil
}

// enter counts a request, unless the connection is over: the library may start
// one in its last moment.
func (c *session) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.running.Add(1)
	c.active++
	c.idle.Stop()
	return true
}

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

// bide holds a request back that comes with many others on a connection that
// has proven nothing yet. It reports whether the request is still wanted.
func (c *session) bide(ctx context.Context) bool {
	c.mu.Lock()
	held := c.active > bideAfter && c.served < provenAfter
	c.mu.Unlock()
	if !held {
		return true
	}
	timer := time.NewTimer(bideTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// leave ends what enter began.
func (c *session) leave(answered bool) {
	c.mu.Lock()
	if answered && c.served < provenAfter {
		c.served++
	}
	if c.active--; c.active == 0 && !c.over {
		c.idle.Reset(c.server.cfg.IdleTimeout)
	}
	c.mu.Unlock()
	c.running.Done()
}

// endIdle ends a connection on which nothing runs.
func (c *session) endIdle() {
	c.mu.Lock()
	idle := c.active == 0 && !c.over
	c.mu.Unlock()
	if idle {
		c.guard.end(ReasonEnded, codeNone)
	}
}

// wait waits for the requests of a connection that is closed.
func (c *session) wait() {
	c.mu.Lock()
	c.over = true
	c.idle.Stop()
	c.mu.Unlock()
	c.running.Wait()
}

// leaving makes the library say GOAWAY along with an answer.
type leaving struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (l leaving) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader sends the headers. Connection has no meaning in HTTP/2, but one
// for the library, which keeps it to itself.
func (l leaving) WriteHeader(status int) {
	if status >= http.StatusOK {
		l.Header()["Connection"] = []string{"close"}
	}
	l.ResponseWriter.WriteHeader(status)
}
