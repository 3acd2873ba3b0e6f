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

// Options is what a tunnel works with.
type Options struct {
	// URLs are where the platform is, with or without wire.TunnelPath: one for each
	// replica, or one that leads to any of them. It is asked before each try.
	URLs func() []string
	// Token gives a token that is good for a while yet.
	Token func(context.Context) (string, error)
	// Handler answers the requests: the router.
	Handler http.Handler
	// Connections is how many connections are kept; 2 when it is 0.
	Connections int
	// Runtime is the name that the agent has for itself. The platform refuses a
	// connection whose token is another runtime's. Empty: the token's.
	Runtime string
	// TLS has the roots that certificates are checked with; nil is the system's.
	TLS *tls.Config
	// Proxy says which proxy leads to the platform; nil is what the environment says.
	Proxy func(*http.Request) (*url.URL, error)

	Log     *slog.Logger
	Metrics *Metrics
	// State is told how many connections there are when that changes.
	State func(connected int)
	// Timing is for tests; the zero value is right.
	Timing Timing
}

// Timing is how long things may take.
type Timing struct {
	// Ping is how often something is sent when nothing else is.
	Ping time.Duration
	// Dead is how long nothing may come before a connection is given up. A write
	// that moves nothing has half of it.
	Dead time.Duration
	// Dial bounds one try, with the answer of the platform.
	Dial time.Duration
	// Present is how often the token is presented again.
	Present time.Duration
	// Slowest is the longest time between two tries.
	Slowest time.Duration
	// Finish is how long requests have at the end of the agent.
	Finish time.Duration
}

// withDefaults fills what is not set.
func (t Timing) withDefaults() Timing {
	return Timing{
		Ping:    cmp.Or(t.Ping, 15*time.Second),
		Dead:    cmp.Or(t.Dead, 30*time.Second),
		Dial:    cmp.Or(t.Dial, 10*time.Second),
		Present: cmp.Or(t.Present, time.Minute),
		Slowest: cmp.Or(t.Slowest, 15*time.Second),
		Finish:  cmp.Or(t.Finish, 10*time.Second),
	}
}

// withDefaults fills what is not set and says what is missing.
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics()
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
