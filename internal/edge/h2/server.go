package h2

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// Server serves connections of HTTP/2. It does not listen.
type Server struct {
	cfg Config
	// suspicious and strict are cfg for suspects and clients on probation.
	suspicious Config
	strict     Config
	limits     h1.Limits // of responses
	replies    sync.Pool // of *bridge.Reply
	workers    workers

	mu       sync.Mutex // guards what follows
	draining bool
	sessions map[*session]struct{}
}

// New makes a Server.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), sessions: make(map[*session]struct{})}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	s.suspicious, s.strict = s.cfg.suspicious(), s.cfg.strict()
	s.limits = cmp.Or(s.cfg.Handler.Limits, h1.DefaultLimits())
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
	client := s.client(conn)
	c := newSession(s, s.configFor(client), conn)
	c.client = client
	s.add(c)
	s.workers.enter()
	c.serve(ctx)
	s.workers.leave()
	s.remove(c)
	if s.cfg.Hooks.Closed != nil {
		s.cfg.Hooks.Closed(c.reason)
	}
}

func (s *Server) add(c *session) {
	if s.cfg.Hooks.Opened != nil {
		s.cfg.Hooks.Opened()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.late = s.draining
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
	if s.draining {
		return
	}
	s.draining = true
	for c := range s.sessions {
		c.announce()
	}
	time.AfterFunc(s.cfg.DrainNotice, s.refuseMore)
}

// refuseMore is the second step of Drain.
func (s *Server) refuseMore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if !c.late {
			c.leaveNow()
		}
	}
}

// Close ends all connections, whatever they are doing.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.conn.Close()
	}
}
