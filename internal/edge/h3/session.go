package h3

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"slipway.dev/slipway/internal/edge/bridge"
)

type sessionKey struct{}

// session is one connection and the requests that run on it.
type session struct {
	server *Server
	conn   *quic.Conn

	mu      sync.Mutex
	running int
	resets  bridge.Resets
	idle    *time.Timer
	reason  string
	over    bool
}

func newSession(s *Server, conn *quic.Conn) *session {
	c := &session{server: s, conn: conn, resets: bridge.Resets{Limits: s.cfg.Resets}}
	c.idle = time.AfterFunc(s.cfg.IdleTimeout, c.expire)
	return c
}

// serveHTTP serves one request and counts it for its connection.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok || !c.startRequest() {
		panic(http.ErrAbortHandler)
	}
	began := time.Now()
	defer func() { c.endRequest(r.Context().Err() != nil, time.Since(began)) }()
	s.cfg.Handler.ServeHTTP(w, r)
}

// startRequest counts a request, unless the connection is closing.
func (c *session) startRequest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.server.running.Add(1)
	c.running++
	c.idle.Stop()
	c.resets.Opened()
	return true
}

// endRequest counts the end of a request; cut is set if the client cancelled
// it.
func (c *session) endRequest(cut bool, age time.Duration) {
	c.server.running.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 && !c.over {
		c.idle.Reset(c.server.cfg.IdleTimeout)
	}
	if cut && c.resets.Cut(age) {
		c.close(ReasonResets, http3.ErrCodeExcessiveLoad)
	}
}

// expire closes an idle connection.
func (c *session) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 {
		c.close(ReasonIdle, http3.ErrCodeNoError)
	}
}

// close closes the connection. It is called with mu held.
func (c *session) close(reason string, code http3.ErrCode) {
	if c.over {
		return
	}
	c.over, c.reason = true, reason
	// CloseWithError does not wait for the client, but for the goroutine of the
	// connection, which may be waiting for mu.
	go func() { _ = c.conn.CloseWithError(quic.ApplicationErrorCode(code), reason) }()
}

// end marks the connection as closed, and returns the reason.
func (c *session) end() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.idle.Stop()
	return cmp.Or(c.reason, ReasonEnded)
}
