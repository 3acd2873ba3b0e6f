package tunnel

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Options configures a tunnel.
type Options struct {
	// URLs returns the URLs of the platform, with or without wire.TunnelPath: one for
	// each replica, or one that leads to any of them. It is called before each
	// attempt, so the list may change while the tunnel runs.
	URLs func() []string
	// Token returns an access token with enough remaining lifetime. It is called for
	// each connection and every Timing.TokenInterval.
	Token func(context.Context) (string, error)
	// Handler serves the requests of the platform: the router.
	Handler http.Handler
	// Connections is the number of connections to keep; 0 means 2.
	Connections int
	// Runtime is the runtime name that the agent is configured with. The platform
	// rejects a connection whose token belongs to another runtime. Empty disables the
	// check.
	Runtime string
	// TLS holds the roots that verify the platform's certificate; nil means the
	// system's roots.
	TLS *tls.Config
	// Proxy selects the HTTP proxy to the platform; nil means the environment
	// (HTTPS_PROXY, NO_PROXY).
	Proxy func(*http.Request) (*url.URL, error)

	Log     *slog.Logger
	Metrics *Metrics
	// State is called with the number of connections whenever it changes. It runs
	// under the tunnel's lock and must not block.
	State func(connected int)
	// Timing is for tests; the zero value selects the defaults.
	Timing Timing
}

// Timing holds the intervals and timeouts of a tunnel.
type Timing struct {
	// Ping is the keepalive interval of an idle connection.
	Ping time.Duration
	// Dead is the read timeout of a connection: after this time without incoming data
	// it is closed. A write without progress times out after half of it.
	Dead time.Duration
	// Dial bounds one connection attempt, up to the platform's response.
	Dial time.Duration
	// TokenInterval is how often the agent sends a new token over the control stream.
	// It is well below the lifetime of a token, so that several updates may fail.
	TokenInterval time.Duration
	// MaxBackoff is the longest delay between two attempts.
	MaxBackoff time.Duration
	// DrainTimeout bounds the requests in flight when the agent shuts down.
	DrainTimeout time.Duration
}

// withDefaults sets the zero fields to their defaults.
func (t Timing) withDefaults() Timing {
	return Timing{
		Ping:          cmp.Or(t.Ping, 15*time.Second),
		Dead:          cmp.Or(t.Dead, 30*time.Second),
		Dial:          cmp.Or(t.Dial, 10*time.Second),
		TokenInterval: cmp.Or(t.TokenInterval, time.Minute),
		MaxBackoff:    cmp.Or(t.MaxBackoff, 15*time.Second),
		DrainTimeout:  cmp.Or(t.DrainTimeout, 10*time.Second),
	}
}

// withDefaults sets the zero fields to their defaults and reports missing required
// ones.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.URLs == nil:
		return o, errors.New("a tunnel needs the URLs of the platform")
	case o.Token == nil:
		return o, errors.New("a tunnel needs a token")
	case o.Handler == nil:
		return o, errors.New("a tunnel needs a handler for the requests")
	case o.Connections < 0:
		return o, errors.New("a tunnel needs at least one connection")
	}
	o.Connections = cmp.Or(o.Connections, 2)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.State == nil {
		o.State = func(int) {}
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	o.Timing = o.Timing.withDefaults()
	return o, nil
}
