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

// Config is what a Server works with. Address or Socket, TLS and Handler have
// to be set.
type Config struct {
	// Address is host and port to listen on, such as :443.
	Address string
	// Socket is listened on instead. The Server closes it.
	Socket net.PacketConn
	// Port is the port that AltSvc announces; 0 means the one listened on.
	Port int
	// TLS decides about handshakes; its GetConfigForClient may decide for each.
	// NextProtos and the least version are what HTTP/3 needs, whatever it says.
	TLS *tls.Config
	// Handler answers the requests.
	Handler http.Handler
	// Context changes the context of a connection before its handshake. The
	// handshake has it, and so have all requests. The address is not proven
	// yet. It may be nil.
	Context func(ctx context.Context, client net.Addr) context.Context

	// MaxConns bounds the open connections, handshakes included. Those beyond
	// are refused. Default 10,000.
	MaxConns int
	// MaxStreams is how many requests of one connection run at a time.
	// Default 100.
	MaxStreams int
	// StreamWindow is how many bytes of a request's body a client may send
	// before anyone reads them. Default 64 KiB; it grows up to ConnWindow for
	// bodies that are read quickly.
	StreamWindow int
	// ConnWindow is the same for all streams together. Default 1 MiB.
	ConnWindow int
	// HeaderBytes bounds the headers of a request, unpacked, 32 bytes more for
	// each. Default 32 KiB.
	HeaderBytes int

	// HandshakeTimeout bounds a handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout ends a connection on which no request has run for that time.
	// Default 75 s.
	IdleTimeout time.Duration
	// SilenceTimeout ends a connection whose client sends no packet. Default
	// 30 s.
	SilenceTimeout time.Duration
	// DrainQuiet is how long no request must have run before Drain closes the
	// connections: what was written last has to arrive. Default 1 s.
	DrainQuiet time.Duration

	// Resets say how many requests a client may cut off.
	Resets bridge.ResetLimits

	Hooks Hooks
	// Log gets panics of handlers, and at debug level what clients do wrong.
	// Nil is nobody.
	Log *slog.Logger
}

// Hooks are called for what is worth counting. Each may be nil. They must be
// quick, and must not call the Server.
type Hooks struct {
	// Opened is called for each connection whose handshake is done.
	Opened func()
	// Closed is called at the end of each, with one of the reasons below.
	Closed func(reason string)
	// Refused is called for each connection that was refused, with
	// ReasonLimit or ReasonDraining.
	Refused func(reason string)
}

// The reasons for which connections end or are refused. They are the labels of
// a metric.
const (
	ReasonEnded    = "ended"            // the client, silence or a drain ended it
	ReasonIdle     = "idle"             // no request ran for IdleTimeout
	ReasonResets   = "rapid_resets"     // the client cut off too many requests
	ReasonLimit    = "connection_limit" // MaxConns are open
	ReasonDraining = "draining"         // Drain was called
)

// DefaultConfig is safe for an edge that faces the internet.
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

// withDefaults fills in what was left out.
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

// check finds what is wrong with a config whose defaults are filled in.
func (c *Config) check() error {
	switch {
	case c.Address == "" && c.Socket == nil:
		return errors.New("there is no address for HTTP/3 to listen on; give one such as :443")
	case c.TLS == nil:
		return errors.New("HTTP/3 is always encrypted; give it a TLS config")
	case c.Handler == nil:
		return errors.New("there is no handler for requests of HTTP/3; give one")
	case c.Port < 0 || c.Port > 65535:
		return errors.New("the port that is announced for HTTP/3 is not one; use 1 to 65535")
	}
	for _, n := range [...]int{c.MaxConns, c.MaxStreams, c.StreamWindow, c.ConnWindow, c.HeaderBytes} {
		if n < 0 || n > 1<<30 {
			return errors.New("limits of HTTP/3 are positive and below 2^30")
		}
	}
	if c.StreamWindow > c.ConnWindow {
		return errors.New("the window of a stream of HTTP/3 cannot be larger than that of its connection")
	}
	for _, d := range [...]time.Duration{c.HandshakeTimeout, c.IdleTimeout, c.SilenceTimeout, c.DrainQuiet} {
		if d < 0 {
			return errors.New("timeouts of HTTP/3 cannot be negative")
		}
	}
	return nil
}
