package h3

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
)

// Config configures a Server. Address, TLS and Handler have to be set.
type Config struct {
	// Address is host and port to listen on, such as :443.
	Address string
	// Port is the port that AltSvc announces; 0 means the one listened on.
	Port int
	// TLS configures handshakes, also by GetConfigForClient. NextProtos and
	// MinVersion are overridden with what HTTP/3 needs.
	TLS *tls.Config
	// Handler serves the requests.
	Handler http.Handler
	// Context returns the context of a connection before its handshake. The
	// handshake uses it, and requests derive theirs from it. The address is not
	// validated yet. It may be nil.
	Context func(ctx context.Context, client net.Addr) context.Context

	// MaxConns bounds the open connections, including handshakes. Further ones
	// are refused. Default 10,000.
	MaxConns int
	// MaxStreams is how many requests of one connection run at a time. Default
	// 100.
	MaxStreams int
	// StreamWindow is how many bytes of a request's body are buffered before
	// the handler reads them. Default 64 KiB; it grows up to ConnWindow for
	// bodies that are read quickly.
	StreamWindow int
	// ConnWindow is the same for all streams together. Default 1 MiB.
	ConnWindow int
	// HeaderBytes bounds the headers of a request, decoded, with 32 bytes more
	// for each. Default 32 KiB.
	HeaderBytes int

	// HandshakeTimeout bounds a handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection on which no request has run for that
	// time. Default 75 s.
	IdleTimeout time.Duration
	// SilenceTimeout closes a connection whose client sends no packet. Default
	// 30 s.
	SilenceTimeout time.Duration
	// DrainQuiet is how long no request must have run before Drain closes the
	// connections: the last response has to arrive. Default 1 s.
	DrainQuiet time.Duration

	// Resets bound the requests that a client cancels.
	Resets bridge.ResetLimits

	Hooks Hooks
	// Log gets panics of handlers, and protocol errors of clients at debug
	// level. Nil logs nothing.
	Log *slog.Logger
}

// Hooks are called to count connections. Each may be nil. They must be quick,
// and must not call the Server.
type Hooks struct {
	// Opened is called for each connection whose handshake is done.
	Opened func()
	// Closed is called at the end of each, with one of the reasons below.
	Closed func(reason string)
	// Refused is called for each connection that was refused, with ReasonLimit
	// or ReasonDraining.
	Refused func(reason string)
}

// The reasons for which connections end or are refused. They are the labels of
// a metric.
const (
	ReasonEnded    = "ended"            // the client, SilenceTimeout or a drain closed it
	ReasonIdle     = "idle"             // no request ran for IdleTimeout
	ReasonResets   = "rapid_resets"     // the client cancelled too many requests
	ReasonLimit    = "connection_limit" // MaxConns are open
	ReasonDraining = "draining"         // Drain was called
)

// DefaultConfig returns limits that are safe for an edge that faces the
// internet.
func DefaultConfig() Config {
	return Config{
		MaxConns:         10_000,
		MaxStreams:       100,
		StreamWindow:     64 << 10,
		ConnWindow:       1 << 20,
		HeaderBytes:      32 << 10,
		HandshakeTimeout: 10 * time.Second,
		IdleTimeout:      75 * time.Second,
		SilenceTimeout:   30 * time.Second,
		DrainQuiet:       time.Second,
		Resets:           bridge.DefaultResetLimits(),
		Log:              slog.New(slog.DiscardHandler),
	}
}

// withDefaults returns the configuration with the default of each field that is
// zero.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.MaxConns = cmp.Or(c.MaxConns, d.MaxConns)
	c.MaxStreams = cmp.Or(c.MaxStreams, d.MaxStreams)
	c.StreamWindow = cmp.Or(c.StreamWindow, d.StreamWindow)
	c.ConnWindow = cmp.Or(c.ConnWindow, d.ConnWindow)
	c.HeaderBytes = cmp.Or(c.HeaderBytes, d.HeaderBytes)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, d.HandshakeTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, d.IdleTimeout)
	c.SilenceTimeout = cmp.Or(c.SilenceTimeout, d.SilenceTimeout)
	c.DrainQuiet = cmp.Or(c.DrainQuiet, d.DrainQuiet)
	c.Resets = cmp.Or(c.Resets, d.Resets)
	c.Log = cmp.Or(c.Log, d.Log)
	return c
}

// check validates a configuration that has its defaults.
func (c *Config) check() error {
	switch {
	case c.Address == "":
		return errors.New("HTTP/3 has no address to listen on; set one such as :443")
	case c.TLS == nil:
		return errors.New("HTTP/3 needs a TLS configuration")
	case c.Handler == nil:
		return errors.New("HTTP/3 needs a handler")
	case c.Port < 0 || c.Port > 65535:
		return errors.New("the announced HTTP/3 port is out of range; use 1 to 65535")
	}
	for _, n := range [...]int{c.MaxConns, c.MaxStreams, c.StreamWindow, c.ConnWindow, c.HeaderBytes} {
		if n < 0 || n > 1<<30 {
			return errors.New("HTTP/3 limits have to be positive and at most 2^30")
		}
	}
	if c.StreamWindow > c.ConnWindow {
		return errors.New("the HTTP/3 stream window cannot be larger than the connection window")
	}
	for _, d := range [...]time.Duration{c.HandshakeTimeout, c.IdleTimeout, c.SilenceTimeout, c.DrainQuiet} {
		if d < 0 {
			return errors.New("HTTP/3 timeouts cannot be negative")
		}
	}
	return nil
}
