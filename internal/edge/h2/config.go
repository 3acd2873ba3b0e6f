package h2

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/offender"
)

// Config is what a Server works with. Only Handler has to be set; DefaultConfig
// says what the others are then.
type Config struct {
	// Handler answers the requests. Their contexts come from the one that
	// ServeConn was given.
	Handler *bridge.Handler

	// MaxStreams is how many requests of one connection run at a time.
	// Default 100.
	MaxStreams int
	// StreamWindow is how many bytes of a request's body a client may send
	// before anyone reads them. Default 64 KiB: a hundred streams that nobody
	// reads then hold no more than a ConnWindow.
	StreamWindow int
	// ConnWindow is the same for all streams together. Default 1 MiB.
	ConnWindow int
	// HeaderBytes bounds the headers of a request, unpacked, 32 bytes more for
	// each. Default 32 KiB. Their number is for the handler to bound.
	HeaderBytes int

	// FirstTimeout bounds the time to the client's first frame. Default 10 s.
	FirstTimeout time.Duration
	// HeaderTimeout bounds the time from the first byte of a request's headers
	// to the last. Default 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout ends a connection without requests. Default 75 s.
	IdleTimeout time.Duration
	// WriteTimeout ends a connection whose client takes no bytes at all.
	// Default 30 s.
	WriteTimeout time.Duration
	// PingAfter is the silence after which a client is asked whether it is
	// there. Default 15 s. A frame that is not complete counts as silence.
	PingAfter time.Duration
	// PingTimeout is how long it has to say so. Default 15 s.
	PingTimeout time.Duration
	// DrainNotice is the time from telling clients that the connection will
	// end to taking no more requests. It has to be longer than a round trip.
	// Default 1 s.
	DrainNotice time.Duration

	// Guard says when a connection costs too much. A client whose connection was
	// ended for that has a tenth of these limits for a minute, so that coming
	// again does not pay; while many new clients flood, all new ones have.
	Guard GuardLimits
	// Trusts says who is a proxy that speaks for many clients, and never has less
	// than the limits. Nil is nobody.
	Trusts func(netip.Addr) bool
	// Offenders are told of floods, and asked about clients. Nil is a register of
	// its own that holds nobody off.
	Offenders *offender.Register
	// openFactor is how many times MaxStreams may be open before it is a flood.
	openFactor int

	Hooks Hooks
	// Log gets what clients do wrong, at debug level. Nil is nobody.
	Log *slog.Logger
}

// GuardLimits say what a client may do beside asking for something. Zero means
// the default.
type GuardLimits struct {
	// Control is how many frames without content may come in a row: PING,
	// SETTINGS, PRIORITY, WINDOW_UPDATE, GOAWAY and those of unknown types.
	// Default 1000, which is Envoy's. An empty DATA frame counts as ten: it
	// has no use at all.
	Control int
	// ControlRate is how many of these become allowed again each second.
	// Default 20: keep-alives, and whatever a quiet client does.
	ControlRate int
	// ControlPerData is how many each DATA frame that we send allows, which is
	// what WINDOW_UPDATE answers. Default 10, which is Envoy's: a client that
	// answers each frame for the stream and for the connection, and measures
	// with a PING, takes three.
	ControlPerData int
	// ControlPerStream is how many each request allows. Default 10: it has a
	// priority, a reset, and the windows of an upload do not count.
	ControlPerStream int
	// ControlSaved is how many can be saved up by these two. Default 50,000: a
	// client that is behind may answer a whole window of tiny frames at once.
	ControlSaved int
	// Continuations is how many CONTINUATION frames one block of headers may
	// have. Default 16: headers that are allowed need two.
	Continuations int
	// BlockBytes bounds one block of headers, as it is sent and unpacked. Default
	// 128 KiB: somewhat more than allowed is answered with 431, much more is an
	// attack.
	BlockBytes int
	// Resets say how many requests may be cut off. Those count that the client
	// resets, and those that we have to because of an error of the client's.
	Resets bridge.ResetLimits
}

// Hooks are called for what is worth counting. Each may be nil. They must be
// quick, and must not call the Server.
type Hooks struct {
	// Opened is called for each connection.
	Opened func()
	// Closed is called at the end of each, with one of the reasons below.
	Closed func(reason string)
}

// The reasons for which connections end. They are the labels of a metric.
const (
	ReasonEnded         = "ended"               // the client, a timeout or a drain ended it
	ReasonFirst         = "first_frame_timeout" // nothing came in FirstTimeout
	ReasonPreface       = "bad_preface"         // it does not start like HTTP/2
	ReasonSlowHeaders   = "slow_headers"        // headers took longer than HeaderTimeout
	ReasonResets        = "rapid_resets"        // the client reset too many requests
	ReasonProvoked      = "provoked_resets"     // it made us reset too many
	ReasonStreams       = "stream_flood"        // it opened streams far beyond MaxStreams
	ReasonPings         = "ping_flood"
	ReasonSettings      = "settings_flood"
	ReasonPriorities    = "priority_flood"
	ReasonWindows       = "window_update_flood"
	ReasonUnknown       = "unknown_frame_flood"
	ReasonEmptyData     = "empty_data_flood"
	ReasonUnread        = "answers_unread"     // it goes on without reading what we say
	ReasonContinuations = "continuation_flood" // too many frames of one block of headers
	ReasonBlock         = "header_block"       // too many bytes of one block of headers
)

// DefaultConfig is safe for an edge that faces the internet.
func DefaultConfig() Config {
	return Config{
		MaxStreams:    100,
		StreamWindow:  64 << 10,
		ConnWindow:    1 << 20,
		HeaderBytes:   32 << 10,
		FirstTimeout:  10 * time.Second,
		HeaderTimeout: 10 * time.Second,
		IdleTimeout:   75 * time.Second,
		WriteTimeout:  30 * time.Second,
		PingAfter:     15 * time.Second,
		PingTimeout:   15 * time.Second,
		DrainNotice:   time.Second,
		Guard: GuardLimits{
			Control:          1000,
			ControlRate:      20,
			ControlPerData:   10,
			ControlPerStream: 10,
			ControlSaved:     50_000,
			Continuations:    16,
			BlockBytes:       128 << 10,
			Resets:           bridge.DefaultResetLimits(),
		},
		Log: slog.New(slog.DiscardHandler),
	}
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.MaxStreams = cmp.Or(c.MaxStreams, d.MaxStreams)
	c.StreamWindow = cmp.Or(c.StreamWindow, d.StreamWindow)
	c.ConnWindow = cmp.Or(c.ConnWindow, d.ConnWindow)
	c.HeaderBytes = cmp.Or(c.HeaderBytes, d.HeaderBytes)
	c.FirstTimeout = cmp.Or(c.FirstTimeout, d.FirstTimeout)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, d.HeaderTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, d.IdleTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, d.WriteTimeout)
	c.PingAfter = cmp.Or(c.PingAfter, d.PingAfter)
	c.PingTimeout = cmp.Or(c.PingTimeout, d.PingTimeout)
	c.DrainNotice = cmp.Or(c.DrainNotice, d.DrainNotice)
	g, dg := &c.Guard, &d.Guard
	g.Control = cmp.Or(g.Control, dg.Control)
	g.ControlRate = cmp.Or(g.ControlRate, dg.ControlRate)
	g.ControlPerData = cmp.Or(g.ControlPerData, dg.ControlPerData)
	g.ControlPerStream = cmp.Or(g.ControlPerStream, dg.ControlPerStream)
	g.ControlSaved = cmp.Or(g.ControlSaved, dg.ControlSaved)
	g.Continuations = cmp.Or(g.Continuations, dg.Continuations)
	g.BlockBytes = cmp.Or(g.BlockBytes, dg.BlockBytes)
	g.Resets = cmp.Or(g.Resets, dg.Resets)
	c.Log = cmp.Or(c.Log, d.Log)
	c.openFactor = openFactor
	if c.Offenders == nil {
		c.Offenders = offender.New(offender.Config{})
	}
	return c
}

// check finds what is wrong with a config whose defaults are filled in.
func (c *Config) check() error {
	if c.Handler == nil || c.Handler.Serve == nil || c.Handler.Pool == nil {
		return errors.New("there is no handler for requests of HTTP/2; give one, with a pool")
	}
	g := &c.Guard
	for _, n := range [...]int{
		c.MaxStreams, c.StreamWindow, c.ConnWindow, c.HeaderBytes,
		g.Control, g.ControlRate, g.ControlPerData, g.ControlPerStream, g.ControlSaved, g.Continuations, g.BlockBytes,
	} {
		if n < 0 || n > 1<<30 {
			return errors.New("limits of HTTP/2 are positive and below 2^30")
		}
	}
	if c.ConnWindow < 65535 {
		return errors.New("the window of a connection of HTTP/2 cannot be smaller than 65535 bytes")
	}
	for _, d := range [...]time.Duration{
		c.FirstTimeout, c.HeaderTimeout, c.IdleTimeout, c.WriteTimeout, c.PingAfter, c.PingTimeout, c.DrainNotice,
	} {
		if d < 0 {
			return errors.New("timeouts of HTTP/2 cannot be negative")
		}
	}
	return nil
}
