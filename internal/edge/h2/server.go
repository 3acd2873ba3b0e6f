package h2

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/workers"
)

// Server serves HTTP/2 connections. It does not listen.
type Server struct {
	cfg Config
	// suspect and reduced are cfg with the limits for suspects and for clients
	// that flooded of late.
	suspect Config
	reduced Config
	limits  h1.Limits // of responses
	replies sync.Pool // of *bridge.ResponseTranslator
	workers *workers.Pool[*stream]

	mu       sync.Mutex // guards what follows
	draining bool
	sessions map[*session]struct{}
}

// New makes a Server.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), sessions: make(map[*session]struct{}), workers: workers.New((*stream).run)}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	s.suspect, s.reduced = s.cfg.suspect(), s.cfg.reduced()
	s.limits = cmp.Or(s.cfg.Handler.Limits, h1.DefaultLimits())
	return s, nil
}

// ServeConn serves a connection after its handshake, if it has one. It returns
// when the connection is closed and all its requests have ended. The contexts
// of requests derive from ctx.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) {
	// The deadline is set before the first read. The first frame lifts it.
	if conn.SetReadDeadline(time.Now().Add(s.cfg.FirstTimeout)) != nil {
		conn.Close()
		return
	}
	client := s.client(conn)
	c := newSession(s, s.configFor(client), conn)
	c.client = client
	s.add(c)
	s.workers.AddUser()
	c.serve(ctx)
	s.workers.RemoveUser()
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
	c.acceptedDraining = s.draining
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

// Drain begins a graceful shutdown and returns at once. Every client gets a
// GOAWAY that refuses nothing yet, and after DrainNotice one that refuses new
// streams; the connection is closed when its running requests have ended.
// Connections that come later get GOAWAY with their first response. Len is 0
// when all are closed.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return
	}
	s.draining = true
	for c := range s.sessions {
		c.announceDrain()
	}
	time.AfterFunc(s.cfg.DrainNotice, s.refuseNewStreams)
}

// refuseNewStreams is the second step of Drain.
func (s *Server) refuseNewStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if !c.acceptedDraining {
			c.drain()
		}
	}
}

// Close closes all connections at once, with their running requests.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.conn.Close()
	}
}
