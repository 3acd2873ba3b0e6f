package upstream

import (
	"cmp"
	"log/slog"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// Config is what holds for all backends. A field that is zero has its default.
type Config struct {
	// IdleTimeout is how long a connection is kept unused. Default 30 s. Many
	// backends close earlier; that is noticed, see CheckAfter.
	IdleTimeout time.Duration
	// MaxIdlePerEndpoint bounds the unused connections. Default 256.
	MaxIdlePerEndpoint int
	// CheckAfter is how long a connection may be unused before it is looked at
	// once more when it is taken: whether the backend closed it, or sent what
	// nobody asked for, which would be taken for the next client's answer. The
	// look is a system call. Default: every time.
	CheckAfter time.Duration
	// ConnectTimeout bounds making a connection, with the lookup of the name
	// and the TLS handshake, where the route has no bound. Default 5 s.
	ConnectTimeout time.Duration
	// MaxInFlightPerEndpoint bounds the requests that run on one endpoint at a
	// time, where the backend says nothing; what is over it goes to others, or
	// ends with an OverloadError. Default 0, no bound: the connections of
	// clients are bounded already.
	MaxInFlightPerEndpoint int64
	// RetryAfter is what an OverloadError tells the client. Default 1 s.
	RetryAfter time.Duration
	// Ejection says when an endpoint gets no requests because it fails.
	Ejection Ejection
	// Limits bound the heads of responses; connections carry them. Default
	// h1.DefaultLimits.
	Limits h1.Limits
	// Timeouts are those of connections to backends. Default: 60 s for the
	// first byte of a response, 10 s more for the rest of its head, 60 s
	// between two pieces of a body, 30 s for a write. There is no least rate:
	// a stream of events is slow by nature.
	Timeouts h1.Timeouts
	// PingAfter is how long an HTTP/2 connection that owes an answer may be
	// silent before it is asked for a sign of life. Default 30 s. An endpoint
	// that does not answer within PingTimeout, by default 10 s, loses its
	// connection.
	PingAfter, PingTimeout time.Duration
	// Pool lends the buffers. Default: one of the Set's own.
	Pool *h1.BufferPool
	// Zone is where the edge itself runs, for balancing that stays near.
	Zone string
	// StickyKey makes the values of sticky cookies. All replicas need the same.
	// Without it they are made from the backend's name alone: still the same
	// everywhere, but who guesses that name can find an address by trying all.
	StickyKey route.Secret
	// LocalNames lets the host name of an endpoint resolve to a loopback or
	// link-local address. Default off: whoever owns a name could otherwise
	// reach what listens only on the edge's own machine, or the cloud's
	// metadata service.
	LocalNames bool
	// Log gets ejections and broken backends. Default: nothing is logged.
	Log *slog.Logger
}

// Ejection says when an endpoint gets no requests because it fails. Failures
// are those of [ConnectFailed], [Reset] and [TimedOut]; an answer of 500 is
// the application's own affair.
type Ejection struct {
	// Failures in a row eject. Default 5; a negative number never ejects.
	Failures int
	// Base is the time of the first ejection, and the time between two tries
	// to connect. It doubles with each ejection until there is a success.
	// Default 1 s.
	Base time.Duration
	// Max bounds the time of an ejection. Default 30 s.
	Max time.Duration
}

// DefaultConfig is safe without tuning.
func DefaultConfig() Config {
	return Config{
		IdleTimeout:        30 * time.Second,
		MaxIdlePerEndpoint: 256,
		CheckAfter:         1, // nanosecond
		ConnectTimeout:     5 * time.Second,
		RetryAfter:         time.Second,
		PingAfter:          30 * time.Second,
		PingTimeout:        10 * time.Second,
		Ejection:           Ejection{Failures: 5, Base: time.Second, Max: 30 * time.Second},
		Limits:             h1.DefaultLimits(),
		Timeouts: h1.Timeouts{
			Head:  10 * time.Second,
			Idle:  60 * time.Second,
			Body:  60 * time.Second,
			Write: 30 * time.Second,
		},
	}
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.IdleTimeout = cmp.Or(c.IdleTimeout, d.IdleTimeout)
	c.MaxIdlePerEndpoint = cmp.Or(c.MaxIdlePerEndpoint, d.MaxIdlePerEndpoint)
	c.CheckAfter = cmp.Or(c.CheckAfter, d.CheckAfter)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, d.ConnectTimeout)
	c.RetryAfter = cmp.Or(c.RetryAfter, d.RetryAfter)
	c.Ejection.Failures = cmp.Or(c.Ejection.Failures, d.Ejection.Failures)
	c.Ejection.Base = cmp.Or(c.Ejection.Base, d.Ejection.Base)
	c.Ejection.Max = max(cmp.Or(c.Ejection.Max, d.Ejection.Max), c.Ejection.Base)
	c.PingAfter = cmp.Or(c.PingAfter, d.PingAfter)
	c.PingTimeout = cmp.Or(c.PingTimeout, d.PingTimeout)
	c.Limits = cmp.Or(c.Limits, d.Limits)
	c.Timeouts = cmp.Or(c.Timeouts, d.Timeouts)
	if c.Pool == nil {
		c.Pool = new(h1.BufferPool)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
