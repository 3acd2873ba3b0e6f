package h2

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/floodtracker"
	"slipway.dev/slipway/internal/edge/h2flow"
)

// Config configures a Server. Only Handler has to be set; the others have the
// defaults of DefaultConfig.
type Config struct {
	// Handler serves the requests. Their contexts derive from the one that
	// ServeConn was given.
	Handler *bridge.Handler

	// MaxStreams is how many requests of one connection run at a time. Default
	// 100.
	MaxStreams int
	// StreamWindow is how many bytes of a request's body are buffered before
	// the handler reads them. Default 64 KiB: ConnWindow bounds what a hundred
	// streams that are not read hold together.
	StreamWindow int
	// ConnWindow is the same for all streams together. Default 1 MiB.
	ConnWindow int
	// HeaderBytes bounds the headers of a request, decoded, with 32 bytes more
	// for each (RFC 9113 section 6.5.2). Default 32 KiB. The handler bounds
	// their number.
	HeaderBytes int

	// FirstTimeout bounds the time to the client's first frame. Default 10 s.
	FirstTimeout time.Duration
	// HeaderTimeout bounds the time from the first byte of a request's headers
	// to the last. Default 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout closes a connection without requests. Default 75 s.
	IdleTimeout time.Duration
	// WriteTimeout closes a connection whose client takes no bytes at all.
	// Default 30 s.
	WriteTimeout time.Duration
	// PingAfter is the time without a complete frame after which a client gets
	// a PING. Default 15 s.
	PingAfter time.Duration
	// PingTimeout is how long the client has to send a frame after that.
	// Default 15 s.
	PingTimeout time.Duration
	// DrainNotice is the time between the two GOAWAYs of a drain. It has to be
	// longer than a round trip. Default 1 s.
	DrainNotice time.Duration

	// Guard are the limits beyond which a connection is closed as a flood. A
	// client whose connection was closed for that has a tenth of them for a
	// minute, so that reconnecting does not pay; during a distributed flood all
	// unknown clients have.
	Guard GuardLimits
	// TrustedProxy reports whether an address is a proxy that carries the
	// requests of many clients. Its limits are never reduced. Nil trusts none.
	TrustedProxy func(netip.Addr) bool
	// Floods tracks the clients that flooded. Nil makes a tracker that bans no
	// client.
	Floods *floodtracker.Tracker
	// openFactor is how many times MaxStreams may be open before it is a flood.
	openFactor int

	Hooks Hooks
	// Log gets protocol errors of clients, at debug level. Nil logs nothing.
	Log *slog.Logger
}

// GuardLimits bound the frames of a client that carry no request and no body.
// Zero means the default.
type GuardLimits struct {
	// Control is how many frames without content may come in a row: PING,
	// SETTINGS, PRIORITY, WINDOW_UPDATE, GOAWAY and those of unknown types.
	// Default 1000, which is Envoy's. An empty DATA frame counts as ten: it has
	// no use at all.
	Control int
	// ControlRate is how many of these become allowed again each second.
	// Default 20, enough for keepalives and the traffic of a quiet client.
	ControlRate int
	// ControlPerData is how many each DATA frame of the server allows:
	// WINDOW_UPDATE follows from it. Default 10, which is Envoy's: a client
	// that updates the windows of the stream and of the connection after each
	// frame, and measures with a PING, takes three.
	ControlPerData int
	// ControlPerStream is how many each request allows. Default 10: it has a
	// priority, a reset, and the windows of an upload do not count.
	ControlPerStream int
	// ControlSaved is how many can be saved up by these two. Default 50,000: a
	// client that is behind may update a whole window of tiny frames at once.
	ControlSaved int
	// Continuations is how many CONTINUATION frames one block of headers may
	// have. Default 16: headers within the limits need two.
	Continuations int
	// BlockBytes bounds one block of headers, both encoded and decoded. Default
	// 128 KiB: somewhat more than HeaderBytes gets the status 431, much more is
	// an attack.
	BlockBytes int
	// Resets bound the requests that are reset before their response. Those
	// count that the client resets, and those that the server resets because of
	// an error of the client.
	Resets bridge.ResetLimits
}

// Hooks are called to count connections. Each may be nil. They must be quick,
// and must not call the Server.
type Hooks struct {
	// Opened is called for each connection.
	Opened func()
	// Closed is called at the end of each, with one of the reasons below.
	Closed func(reason string)
}

// The reasons for which connections are closed. They are the labels of a
// metric.
const (
	ReasonEnded         = "ended"               // the client, a timeout or a drain closed it
	ReasonFirst         = "first_frame_timeout" // no frame came within FirstTimeout
	ReasonPreface       = "bad_preface"         // it does not start with the preface
	ReasonSlowHeaders   = "slow_headers"        // headers took longer than HeaderTimeout
	ReasonResets        = "rapid_resets"        // the client reset too many requests
	ReasonProvoked      = "provoked_resets"     // it made the server reset too many
	ReasonStreams       = "stream_flood"        // it opened streams far beyond MaxStreams
	ReasonPings         = "ping_flood"
	ReasonSettings      = "settings_flood"
	ReasonPriorities    = "priority_flood"
	ReasonWindows       = "window_update_flood"
	ReasonUnknown       = "unknown_frame_flood"
	ReasonEmptyData     = "empty_data_flood"
	ReasonUnread        = "responses_unread"   // it sends frames and does not read the replies
	ReasonContinuations = "continuation_flood" // too many frames of one block of headers
	ReasonBlock         = "header_block"       // too many bytes of one block of headers
)

// DefaultConfig returns limits that are safe for an edge that faces the
// internet.
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

// withDefaults returns the configuration with the default of each field that is
// zero.
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
	if c.Floods == nil {
		c.Floods = floodtracker.New(floodtracker.Config{})
	}
	return c
}

// check validates a configuration that has its defaults.
func (c *Config) check() error {
	if c.Handler == nil || c.Handler.Serve == nil || c.Handler.Pool == nil {
		return errors.New("HTTP/2 needs a handler with a buffer pool")
	}
	g := &c.Guard
	for _, n := range [...]int{
		c.MaxStreams, c.StreamWindow, c.ConnWindow, c.HeaderBytes,
		g.Control, g.ControlRate, g.ControlPerData, g.ControlPerStream, g.ControlSaved, g.Continuations, g.BlockBytes,
	} {
		if n < 0 || n > 1<<30 {
			return errors.New("HTTP/2 limits have to be positive and at most 2^30")
		}
	}
	if c.ConnWindow < h2flow.DefaultWindow {
		return errors.New("the HTTP/2 connection window has to be at least 65535 bytes")
	}
	for _, d := range [...]time.Duration{
		c.FirstTimeout, c.HeaderTimeout, c.IdleTimeout, c.WriteTimeout, c.PingAfter, c.PingTimeout, c.DrainNotice,
	} {
		if d < 0 {
			return errors.New("HTTP/2 timeouts cannot be negative")
		}
	}
	return nil
}
