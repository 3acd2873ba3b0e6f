package h3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"slipway.dev/slipway/internal/edge/bridge"
)

const (
	// uniStreams is how many unidirectional streams a client may open: three
	// that HTTP/3 needs, and some of reserved types that browsers open to keep
	// servers tolerant.
	uniStreams = 16
	// freeHandshakes is how many handshakes may be open before clients have to
	// validate their addresses with Retry, which costs a round trip.
	freeHandshakes = 128
	// altSvcMaxAge is how long clients may cache AltSvc.
	altSvcMaxAge = 24 * time.Hour
)

// Server listens for HTTP/3 on one socket.
type Server struct {
	cfg       Config
	socket    net.PacketConn
	transport *quic.Transport
	listener  *quic.Listener
	lib       *http3.Server

	open        atomic.Int64 // connections, including handshakes
	established atomic.Int64 // connections whose handshake is done
	running     atomic.Int64 // requests
	draining    atomic.Bool
}

// Listen opens the socket. Clients can connect from then on, and are served
// once Serve is called.
func Listen(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults()}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	var err error
	if s.socket, err = net.ListenPacket("udp", s.cfg.Address); err != nil {
		return nil, fmt.Errorf("listen for HTTP/3: %w", err)
	}
	s.lib = &http3.Server{
		Handler:        http.HandlerFunc(s.serveHTTP),
		MaxHeaderBytes: s.cfg.HeaderBytes,
		ConnContext:    s.newConn,
		Logger:         s.cfg.Log,
	}
	s.transport = &quic.Transport{
		Conn:        s.socket,
		ConnContext: s.admit,
		VerifySourceAddress: func(net.Addr) bool {
			return s.open.Load()-s.established.Load() >= freeHandshakes
		},
	}
	s.listener, err = s.transport.Listen(http3.ConfigureTLSConfig(s.cfg.TLS), s.quicConfig())
	if err != nil {
		s.socket.Close()
		return nil, fmt.Errorf("listen for HTTP/3: %w", err)
	}
	return s, nil
}

func (s *Server) quicConfig() *quic.Config {
	c := &s.cfg
	return &quic.Config{
		// The library allows twice this time for a handshake in which packets
		// keep coming.
		HandshakeIdleTimeout:           c.HandshakeTimeout / 2,
		MaxIdleTimeout:                 c.SilenceTimeout,
		InitialStreamReceiveWindow:     uint64(c.StreamWindow),
		MaxStreamReceiveWindow:         uint64(c.ConnWindow),
		InitialConnectionReceiveWindow: uint64(c.ConnWindow),
		MaxConnectionReceiveWindow:     uint64(c.ConnWindow),
		MaxIncomingStreams:             int64(c.MaxStreams),
		MaxIncomingUniStreams:          uniStreams,
	}
}

// Addr is the address of the socket.
func (s *Server) Addr() net.Addr { return s.socket.LocalAddr() }

// Len is the number of connections whose handshake is done.
func (s *Server) Len() int { return int(s.established.Load()) }

// AltSvc is the value of the Alt-Svc header that announces HTTP/3 to clients of
// HTTP/1.1 and HTTP/2 (RFC 7838). It is empty once Drain was called.
func (s *Server) AltSvc() string {
	if s.draining.Load() {
		return ""
	}
	port := s.cfg.Port
	if udp, ok := s.Addr().(*net.UDPAddr); ok && port == 0 {
		port = udp.Port
	}
	return fmt.Sprintf(`h3=":%d"; ma=%d`, port, int(altSvcMaxAge.Seconds()))
}

// Serve serves until Drain or Close is called, and returns nil then.
func (s *Server) Serve() error {
	err := s.lib.ServeListener(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP/3: %w", err)
}

// admit accepts or refuses a connection before its handshake.
func (s *Server) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	if s.draining.Load() {
		return nil, s.refused(ReasonDraining)
	}
	if s.open.Add(1) > int64(s.cfg.MaxConns) {
		s.open.Add(-1)
		return nil, s.refused(ReasonLimit)
	}
	context.AfterFunc(ctx, func() { s.open.Add(-1) })
	if s.cfg.Context != nil {
		ctx = s.cfg.Context(ctx, info.RemoteAddr)
	}
	return ctx, nil
}

func (s *Server) refused(reason string) error {
	if s.cfg.Hooks.Refused != nil {
		s.cfg.Hooks.Refused(reason)
	}
	return errors.New(reason)
}

// newConn is called for each connection whose handshake is done.
func (s *Server) newConn(ctx context.Context, conn *quic.Conn) context.Context {
	s.established.Add(1)
	if s.cfg.Hooks.Opened != nil {
		s.cfg.Hooks.Opened()
	}
	c := newSession(s, conn)
	context.AfterFunc(conn.Context(), func() {
		s.established.Add(-1)
		reason := c.end()
		if s.cfg.Hooks.Closed != nil {
			s.cfg.Hooks.Closed(reason)
		}
	})
	ctx = context.WithValue(ctx, sessionKey{}, c)
	return bridge.WithAddresses(ctx, conn.LocalAddr(), conn.RemoteAddr())
}
