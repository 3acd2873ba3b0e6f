package listener

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
)

// The defaults. They are safe without tuning.
const (
	DefaultMaxConns         = 10_000
	DefaultHeaderTimeout    = 10 * time.Second
	DefaultProxyHeaderLimit = 216
)

// maxProxyHeaderLimit keeps the largest PROXY header below maxLookahead.
const maxProxyHeaderLimit = 4096

// ProxyMode is how PROXY headers are handled.
type ProxyMode uint8

// The modes.
const (
	// ProxyOff reads no header.
	ProxyOff ProxyMode = iota
	// ProxyOptional reads a header when a trusted peer sends one. What other
	// peers send is left unchanged.
	ProxyOptional
	// ProxyRequire closes connections without a header, and those of peers that
	// are not trusted.
	ProxyRequire
)

// Config configures a listener. Only Address has to be set.
type Config struct {
	// Network is tcp, tcp4 or tcp6; empty means tcp.
	Network string
	// Address is host and port, such as :443.
	Address string
	// ReusePort lets other processes listen on the same port, for upgrades
	// without a pause. It needs Linux.
	ReusePort bool
	// Backlog is the length of the kernel's accept queue; 0 means the maximum.
	Backlog int
	// KeepAlive detects peers that are gone. Zero means: after 30 s without
	// traffic, 4 probes at 10 s intervals.
	KeepAlive net.KeepAliveConfig

	// MaxConns bounds the open connections; 0 means 10,000. Further ones are
	// closed at once.
	MaxConns int
	// MaxConnsPerSource bounds the open connections of one client address; 0
	// means no bound. An IPv6 client is its /64 network, because it has that
	// many addresses. Trusted proxies are not bounded.
	MaxConnsPerSource int
	// Banned reports whether new connections of a client are closed before
	// anything is read from them; nil bans none. The client is the one that a
	// PROXY header names, and never a trusted proxy.
	Banned func(client netip.Addr) bool
	// HeaderTimeout is the time from the accept until the PROXY header and the
	// first bytes have been read; 0 means 10 s.
	HeaderTimeout time.Duration

	// Proxy is the PROXY protocol mode; TrustedProxies may send a header.
	Proxy          ProxyMode
	TrustedProxies []netip.Prefix
	// ProxyHeaderLimit bounds what follows the 16 fixed bytes of a version 2
	// header; 0 means 216, the size of the largest addresses. Raise it, up to
	// 4096, for a balancer that sends long TLVs.
	ProxyHeaderLimit int

	// Loops serve the connections, and accept them, in place of goroutines; nil has none.
	// The handler of [Listener.Serve] is then called as a task, and may block in the connection.
	Loops *eventloop.Group

	Hooks Hooks
}

// Hooks are called to count connections. Each may be nil. They must be quick,
// and must not call the listener.
type Hooks struct {
	// Opened is called for each connection that Accept returns.
	Opened func()
	// Closed is called when such a connection is closed.
	Closed func(open time.Duration)
	// Refused is called for each connection that is closed instead.
	Refused func(RefuseReason)
	// AcceptFailed is called when accepting fails. The listener tries again.
	AcceptFailed func(error)
}

// RefuseReason is why a connection was closed instead of returned by Accept. It
// is the label of a metric.
type RefuseReason string

// The reasons.
const (
	RefusedLimit       RefuseReason = "connection_limit" // MaxConns are open
	RefusedSource      RefuseReason = "source_limit"     // MaxConnsPerSource are open
	RefusedBanned      RefuseReason = "banned"           // the client is banned for its floods
	RefusedUntrusted   RefuseReason = "untrusted_proxy"  // a header is required, and the peer may not send one
	RefusedProxyHeader RefuseReason = "proxy_header"     // the PROXY header is wrong, or there is none
	RefusedTimeout     RefuseReason = "proxy_timeout"    // the PROXY header did not come in time
	RefusedGone        RefuseReason = "proxy_gone"       // the peer disconnected before the PROXY header
	RefusedStopping    RefuseReason = "stopping"         // the listener was closed meanwhile
)

func (h *Hooks) opened() {
	if h.Opened != nil {
		h.Opened()
	}
}

func (h *Hooks) closed(open time.Duration) {
	if h.Closed != nil {
		h.Closed(open)
	}
}

func (h *Hooks) refused(reason RefuseReason) {
	if h.Refused != nil {
		h.Refused(reason)
	}
}

func (h *Hooks) acceptFailed(err error) {
	if h.AcceptFailed != nil {
		h.AcceptFailed(err)
	}
}

// withDefaults returns the configuration with the default of each field that is
// zero.
func (c Config) withDefaults() Config {
	c.Network = cmp.Or(c.Network, "tcp")
	c.MaxConns = cmp.Or(c.MaxConns, DefaultMaxConns)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, DefaultHeaderTimeout)
	c.ProxyHeaderLimit = cmp.Or(c.ProxyHeaderLimit, DefaultProxyHeaderLimit)
	if c.KeepAlive == (net.KeepAliveConfig{}) {
		c.KeepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 4}
	}
	return c
}

// check returns all problems of a configuration.
func (c Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch c.Network {
	case "tcp", "tcp4", "tcp6":
	default:
		bad("network %q is not known; use tcp, tcp4 or tcp6", c.Network)
	}
	if c.Address == "" {
		bad("there is no address to listen on; give one such as :443")
	}
	if c.MaxConns < 0 || c.MaxConnsPerSource < 0 || c.Backlog < 0 || c.HeaderTimeout < 0 {
		bad("limits and timeouts cannot be negative")
	}
	if c.ProxyHeaderLimit < 0 || c.ProxyHeaderLimit > maxProxyHeaderLimit {
		bad("the limit of %d bytes for PROXY headers is out of range; use 1 to %d", c.ProxyHeaderLimit, maxProxyHeaderLimit)
	}
	if c.Proxy > ProxyRequire {
		bad("PROXY protocol mode %d is not known", c.Proxy)
	}
	if c.Proxy != ProxyOff && len(c.TrustedProxies) == 0 {
		bad("the PROXY protocol is enabled, but no client is trusted to use it; list the networks of the load balancers")
	}
	for _, prefix := range c.TrustedProxies {
		if !prefix.IsValid() {
			bad("a trusted network is not valid; write it as 10.0.0.0/8")
		}
	}
	return errors.Join(errs...)
}

// trusts reports whether an address may send a PROXY header.
func (c *Config) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(c.TrustedProxies, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}
