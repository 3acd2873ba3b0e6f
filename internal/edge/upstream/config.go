package upstream

import (
	"cmp"
	"log/slog"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// Config configures a Set. A field that is zero has its default.
type Config struct {
	// IdleTimeout is how long an unused connection is kept. Default 30 s. Many
	// backends close theirs earlier; CheckAfter finds those.
	IdleTimeout time.Duration
	// MaxIdlePerEndpoint bounds the unused connections. Default 256.
	MaxIdlePerEndpoint int
	// CheckAfter is how long a connection may be unused before it is checked
	// when it is taken: whether the backend closed it, or sent bytes without a
	// request, which would be read as the response of the next client. The
	// check is a system call. Default: every time.
	CheckAfter time.Duration
	// ConnectTimeout bounds making a connection, including DNS and the TLS
	// handshake, where the route sets no timeout. Default 5 s.
	ConnectTimeout time.Duration
	// MaxInFlightPerEndpoint bounds the requests that run on one endpoint at a
	// time, where the backend sets no limit. Further requests go to other
	// endpoints, or fail with an OverloadError. Default 0, no bound: the
	// connections of clients are bounded already.
	MaxInFlightPerEndpoint int64
	// RetryAfter is the Retry-After of an OverloadError. Default 1 s.
	RetryAfter time.Duration
	// Ejection configures outlier ejection.
	Ejection Ejection
	// Limits bound the heads of responses; connections carry them. Default
	// h1.DefaultLimits.
	Limits h1.Limits
	// Timeouts are those of connections to backends. Default: 60 s for the
	// first byte of a response, 10 s more for the rest of its head, 60 s
	// between two pieces of a body, 30 s for a write. There is no least rate: a
	// stream of events is slow by nature.
	Timeouts h1.Timeouts
	// PingAfter is how long an endpoint may send no frame on an HTTP/2
	// connection with an outstanding response before it gets a PING. Default 30
	// s. The connection is closed when no frame comes within PingTimeout after
	// that, by default 10 s.
	PingAfter, PingTimeout time.Duration
	// Pool lends the buffers. Default: one of the Set's own.
	Pool *h1.BufferPool
	// Zone is the zone that the edge runs in, for balancing that prefers it.
	Zone string
	// StickyKey is the key of the values of sticky cookies. All replicas need
	// the same. Without it the values depend on the backend's name alone: they
	// are still the same on every replica, but a client that guesses the name
	// can find an address by trying all.
	StickyKey route.Secret
	// LocalNames lets the host name of an endpoint resolve to a loopback or
	// link-local address. Default off: the owner of a name could otherwise
	// reach what listens only on the edge's own machine, or the metadata
	// service of a cloud.
	LocalNames bool
	// Log gets ejections and broken backends. Default: nothing is logged.
	Log *slog.Logger
}

// Ejection configures outlier ejection: when an endpoint gets no requests
// because it fails. [ConnectFailed], [Reset] and [TimedOut] are failures; a
// response with status 500 is not, because the application sent it.
type Ejection struct {
	// Failures is how many failures in a row eject an endpoint. Default 5; a
	// negative number never ejects.
	Failures int
	// Base is the length of the first ejection, and the interval at which the
	// edge tries to connect to an ejected endpoint. The length doubles with
	// each ejection until a request succeeds. Default 1 s.
	Base time.Duration
	// Max is the length of the longest ejection. Default 30 s.
	Max time.Duration
}

// DefaultConfig returns a configuration that is safe without tuning.
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

// withDefaults returns the configuration with the default of each field that is
// zero.
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
	c.Pool = cmp.Or(c.Pool, new(h1.BufferPool))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}
