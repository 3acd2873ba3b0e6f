package edge

import (
	"context"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/floodtracker"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/route"
)

// EntryPoint is an address on which the edge accepts traffic.
type EntryPoint struct {
	Name    string
	Address string
	// UDP takes datagrams in place of connections, for TCP routes that name the entry
	// point. FlowTimeout ends the flow of a client without datagrams; 0 means the default.
	UDP         bool
	FlowTimeout time.Duration
	// ReusePort lets other processes listen on the same port.
	ReusePort bool
	// TLS accepts encrypted connections only.
	TLS bool
	// HTTP3 serves HTTP/3 on the same port by UDP. It needs TLS.
	HTTP3 bool
	// AdvertisedPort is the port of HTTP/3 in Alt-Svc; 0 means that of the
	// address.
	AdvertisedPort uint16
	// ProxyTrusted may send a PROXY header. ProxyOptional accepts connections
	// without one too.
	ProxyTrusted  []netip.Prefix
	ProxyOptional bool
	// ForwardTrusted are the proxies whose X-Forwarded headers count.
	ForwardTrusted []netip.Prefix
	// MaxStreams bounds the requests that run on one connection at a time.
	MaxStreams int
	// MaxConns bounds the connections, MaxConnsPerSource those of one client; 0
	// is no bound for the latter.
	MaxConns          int
	MaxConnsPerSource int
	// MaxBan is the longest time for which the new connections of a client that
	// floods again and again are refused; 0 bans none.
	MaxBan time.Duration
	// Limits and Timeouts are those for clients.
	Limits   h1.Limits
	Timeouts h1.Timeouts
	// Redirect redirects all clients; nil does not.
	Redirect *Redirect
	// AcceptGrace is how long connections are still accepted after the shutdown
	// began, until load balancers have noticed it.
	AcceptGrace time.Duration
	// DrainTimeout is how long exchanges may run after that.
	DrainTimeout time.Duration
}

// Redirect redirects the clients of an entry point.
type Redirect struct {
	Scheme route.Scheme
	// Port is the port of the new location; 0 is the default of the scheme.
	Port      uint16
	Permanent bool
	// Priority is the priority of the redirect among the rules.
	Priority int32
}

// DefaultEntryPoint returns an entry point that is safe without tuning.
func DefaultEntryPoint(name, address string) EntryPoint {
	return EntryPoint{
		Name: name, Address: address,
		MaxStreams: 100, MaxConns: listener.DefaultMaxConns, MaxBan: floodtracker.DefaultMaxBan,
		Limits: h1.DefaultLimits(), Timeouts: h1.DefaultTimeouts(),
		AcceptGrace: 5 * time.Second, DrainTimeout: 30 * time.Second,
	}
}

// listen opens the listener of an entry point.
func (p *point) listen(ctx context.Context, hooks listener.Hooks) (*listener.Listener, error) {
	config := listener.Config{
		Loops:   p.server.loops,
		Address: p.Address, ReusePort: p.ReusePort, Hooks: hooks,
		MaxConns: p.MaxConns, MaxConnsPerSource: p.MaxConnsPerSource, HeaderTimeout: p.Timeouts.Head,
		TrustedProxies: p.ProxyTrusted, Banned: p.banned,
	}
	switch {
	case len(p.ProxyTrusted) > 0 && p.ProxyOptional:
		config.Proxy = listener.ProxyOptional
	case len(p.ProxyTrusted) > 0:
		config.Proxy = listener.ProxyRequire
	}
	return listener.Listen(ctx, config)
}

// redirectKind is the kind of the rules that redirects make.
const redirectKind = "EntryPoint"

// redirectRule makes the rule that redirects all clients of an entry point. It
// is a rule like any other, so that explain shows it and a rule with a higher
// priority is served instead.
func (p *EntryPoint) redirectRule() *route.Rule {
	status, from := 307, route.SchemeHTTP
	if p.Redirect.Permanent {
		status = 308
	}
	if p.Redirect.Scheme == route.SchemeHTTP {
		from = route.SchemeHTTPS
	}
	return &route.Rule{
		ID:          route.ID{Kind: redirectKind, Name: p.Name, Variant: "redirect"},
		EntryPoints: []string{p.Name},
		// Behind a proxy that terminates TLS, a request with the new scheme
		// must not be redirected again.
		Match:    route.Match{Scheme: from},
		Priority: p.Redirect.Priority,
		Policies: []route.Policy{{RedirectScheme: &route.RedirectScheme{
			Scheme: p.Redirect.Scheme, Port: p.Redirect.Port, Status: status,
		}}},
		Response: &route.Response{Status: 404, Reason: route.ReasonConfigured},
	}
}
