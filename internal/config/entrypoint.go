package config

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EntryPoint is an address that accepts traffic, with the limits and timeouts
// of its connections.
type EntryPoint struct {
	Address          string           `yaml:"address" description:"Address that this entry point listens on, as :port or ip:port. With /udp behind it, such as :53/udp, it takes datagrams for IngressRouteUDPs, and the options for connections have no effect. Its name consists of lower-case letters, digits and dashes; upper case is converted to lower case, so that a file and the environment name the same entry point. When no entry point is set, there is one: web on :8080, a port that needs no privilege."`
	ReusePort        bool             `yaml:"reusePort" description:"Allow other processes to listen on the same port, so that one can replace another without downtime."`
	ProxyProtocol    ProxyProtocol    `yaml:"proxyProtocol"`
	ForwardedHeaders ForwardedHeaders `yaml:"forwardedHeaders"`
	HTTP             EntryPointHTTP   `yaml:"http"`
	HTTP2            EntryPointHTTP2  `yaml:"http2"`
	HTTP3            *EntryPointHTTP3 `yaml:"http3,omitempty" label:"allowEmpty" description:"Serves HTTP/3 on the same port over UDP, and advertises it to clients. It requires http.tls."`
	UDP              EntryPointUDP    `yaml:"udp"`
	Transport        Transport        `yaml:"transport"`
}

// EntryPointUDP has the options of an entry point for datagrams.
type EntryPointUDP struct {
	Timeout Duration `yaml:"timeout" description:"How long a client keeps its backend without a datagram in either direction, on an entry point with /udp."`
}

// Listen returns the address without its network, and whether that is UDP.
func (p *EntryPoint) Listen() (address string, udp bool) {
	if address, udp = strings.CutSuffix(p.Address, "/udp"); udp {
		return address, true
	}
	return strings.TrimSuffix(p.Address, "/tcp"), false
}

// ProxyProtocol lists the peers whose PROXY headers are accepted. Headers of
// others would let any client choose its own address.
type ProxyProtocol struct {
	TrustedIPs []string `yaml:"trustedIPs" description:"Addresses and networks of the load balancers that send a PROXY header, version 1 or 2. When empty, no header is read."`
	Optional   bool     `yaml:"optional" description:"Also accept connections without a PROXY header. When false, and trustedIPs is set, the edge closes such connections and all connections from other addresses: otherwise a client could choose its own address by omitting the header."`
}

// ForwardedHeaders lists the peers whose X-Forwarded headers are kept; those of
// others are replaced.
type ForwardedHeaders struct {
	TrustedIPs []string `yaml:"trustedIPs" description:"Addresses and networks of the proxies whose X-Forwarded-*, Forwarded and X-Real-Ip headers are trusted. From other clients these headers are dropped, in every spelling. When empty, no client is trusted."`
	Insecure   bool     `yaml:"insecure" description:"Trust these headers from all clients. Every client of the entry point can then claim any address."`
}

// EntryPointHTTP has the options for HTTP on an entry point, for all protocol
// versions.
type EntryPointHTTP struct {
	TLS               bool              `yaml:"tls" description:"Accept only TLS connections, with the certificates of the routes. The TLS options of a host come from the routes too. When false, connections are not encrypted."`
	Redirections      Redirections      `yaml:"redirections"`
	MaxHeaderBytes    int               `yaml:"maxHeaderBytes" description:"Maximum size of a request head, with all of its headers. The response to a larger one is 431."`
	MaxHeaders        int               `yaml:"maxHeaders" description:"Maximum number of header lines of a request; HTTP/2 and HTTP/3 count each cookie separately."`
	EncodedCharacters EncodedCharacters `yaml:"encodedCharacters"`
	UpgradeProtocols  []string          `yaml:"upgradeProtocols" description:"Protocols that a client may switch its connection to with an Upgrade header, such as websocket or SPDY/3.1. After the switch the edge forwards bytes without reading them. A request for another protocol is served without its Upgrade header. When empty, only websocket is allowed."`
	AllowUnderscores  bool              `yaml:"allowUnderscores" description:"Accept requests with underscores in header names. When false, they are refused, because many backends treat X_Forwarded_For as X-Forwarded-For. Names that are such a spelling of a known header are dropped in both cases."`
}

// EncodedCharacters allows paths that backends are known to interpret in more
// than one way. All of them are rejected with 400 unless they are allowed here.
type EncodedCharacters struct {
	AllowEncodedSlash         bool `yaml:"allowEncodedSlash" description:"Accept paths with %2F, as some APIs have them. Rules see it as one character of an element; a backend that decodes it sees more elements than the rules did."`
	AllowEncodedBackSlash     bool `yaml:"allowEncodedBackSlash" description:"Accept paths with a backslash, plain or as %5C. Some backends treat it as a slash."`
	AllowEncodedNullCharacter bool `yaml:"allowEncodedNullCharacter" description:"Accept paths with %00. Some backends treat it as the end of the path."`
	AllowEncodedSemicolon     bool `yaml:"allowEncodedSemicolon" description:"Accept paths with a semicolon, plain or as %3B. Some backends cut off what follows it in an element."`
	AllowEncodedHash          bool `yaml:"allowEncodedHash" description:"Accept paths with %23. Some backends treat it as the start of a fragment."`
	AllowBadEscapes           bool `yaml:"allowBadEscapes" description:"Accept paths with a percent sign that starts no escape. Backends guess what it means."`
}

// Redirections send clients to another entry point.
type Redirections struct {
	EntryPoint RedirectEntryPoint `yaml:"entryPoint"`
}

// RedirectEntryPoint redirects every request of an entry point to another one.
type RedirectEntryPoint struct {
	To        string `yaml:"to" description:"Name of the entry point, or :port, that clients are redirected to. When empty, no client is redirected."`
	Scheme    string `yaml:"scheme" description:"Scheme of the redirect location: https or http."`
	Permanent bool   `yaml:"permanent" description:"Respond with 308, which browsers cache. When false, with 307."`
	Priority  int    `yaml:"priority" description:"Priority of the redirection among the routes. A route with a higher priority is served instead, such as one for ACME challenges."`
}

// EntryPointHTTP2 limits HTTP/2. HTTP/3 has the same limit of streams.
type EntryPointHTTP2 struct {
	MaxConcurrentStreams int `yaml:"maxConcurrentStreams" description:"Maximum number of concurrent requests on one HTTP/2 or HTTP/3 connection."`
}

// EntryPointHTTP3 enables HTTP/3 on an entry point. A nil one is disabled.
type EntryPointHTTP3 struct {
	AdvertisedPort int `yaml:"advertisedPort" description:"Port that is advertised to clients, if a load balancer changes it. 0 means the port of the address."`
}

// Transport has the limits and timeouts of connections. All of them are finite
// by default.
type Transport struct {
	MaxConnections          int                `yaml:"maxConnections" description:"Maximum number of open connections. Further connections are closed at once and counted."`
	MaxConnectionsPerSource int                `yaml:"maxConnectionsPerSource" description:"Maximum number of open connections of one client address; of one /64 network with IPv6. 0 means no limit. Trusted load balancers are not limited."`
	MaxHold                 Duration           `yaml:"maxHold" description:"Maximum ban of a client address, or of a /64 network with IPv6. Its new connections are closed at once after three of its connections were closed for floods of HTTP/2 frames within a minute. The first ban lasts 1s, each further one twice as long. 0 disables bans. Trusted proxies and private addresses are never banned."`
	RespondingTimeouts      RespondingTimeouts `yaml:"respondingTimeouts"`
	LifeCycle               LifeCycle          `yaml:"lifeCycle"`
}

// RespondingTimeouts bound the waits for clients. Each bounds one wait and not
// a whole request, so that slow but steady transfers complete.
type RespondingTimeouts struct {
	HeaderTimeout Duration `yaml:"headerTimeout" description:"Timeout of a TLS handshake, and of a request head from its first byte on."`
	ReadTimeout   Duration `yaml:"readTimeout" description:"Timeout between two pieces of a request's body. It does not limit the whole body, so that it stops a client that hangs and not a large upload."`
	WriteTimeout  Duration `yaml:"writeTimeout" description:"Timeout for a client to receive a piece of the response. It does not limit the whole response either."`
	IdleTimeout   Duration `yaml:"idleTimeout" description:"How long a connection stays open between two requests."`
}

// LifeCycle configures how an entry point drains: it first accepts on while
// load balancers remove it, then waits for running requests.
type LifeCycle struct {
	RequestAcceptGraceTimeout Duration `yaml:"requestAcceptGraceTimeout" description:"How long the edge still accepts connections after it starts to stop and is no longer ready, until load balancers notice."`
	GraceTimeOut              Duration `yaml:"graceTimeOut" description:"How long active requests may then continue before they are aborted."`
}

// SetDefaults sets every option of the entry point to its default. The decoder
// calls it by this name for each entry point in the configuration.
func (p *EntryPoint) SetDefaults() {
	*p = EntryPoint{
		HTTP: EntryPointHTTP{
			// The priority is just below the maximum, so that ACME challenges,
			// which have the maximum, are served before the redirect.
			Redirections:   Redirections{EntryPoint: RedirectEntryPoint{Scheme: "https", Permanent: true, Priority: 1<<31 - 2}},
			MaxHeaderBytes: 32 << 10,
			MaxHeaders:     100,
		},
		HTTP2: EntryPointHTTP2{MaxConcurrentStreams: 100},
		UDP:   EntryPointUDP{Timeout: Duration(time.Minute)},
		Transport: Transport{
			MaxConnections: 10_000,
			MaxHold:        Duration(time.Minute),
			RespondingTimeouts: RespondingTimeouts{
				HeaderTimeout: Duration(10 * time.Second), ReadTimeout: Duration(30 * time.Second),
				WriteTimeout: Duration(30 * time.Second), IdleTimeout: Duration(75 * time.Second),
			},
			LifeCycle: LifeCycle{RequestAcceptGraceTimeout: Duration(5 * time.Second), GraceTimeOut: Duration(30 * time.Second)},
		},
	}
}

// defaultEntryPoint is the entry point web of a configuration without any. Its
// port needs no privileges.
func defaultEntryPoint() EntryPoint {
	var point EntryPoint
	point.SetDefaults()
	point.Address = ":8080"
	return point
}

// ParseNetworks parses addresses and networks such as 10.0.0.0/8. An address is
// a network of one. IPv4-mapped IPv6 addresses become IPv4, as peers are
// compared.
func ParseNetworks(list []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		if address, err := netip.ParseAddr(text); err == nil {
			networks = append(networks, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

// entryPoints checks all entry points, and the targets of redirects among them.
func (c *checker) entryPoints(e *Edge) {
	if len(e.EntryPoints) == 0 {
		c.add("entryPoints", "has none: set at least one, such as entryPoints.web.address")
	}
	// Sorted names keep the order of messages stable, and decide which of two
	// entry points with one address is reported.
	for _, name := range slices.Sorted(maps.Keys(e.EntryPoints)) {
		at := "entryPoints." + name
		if !validLabel(name) {
			c.add(at, "is not a valid name: %s", nameRule)
			continue
		}
		point := e.EntryPoints[name]
		c.entryPointAddress(at, &point)
		c.networks(at+".proxyProtocol.trustedIPs", point.ProxyProtocol.TrustedIPs)
		c.networks(at+".forwardedHeaders.trustedIPs", point.ForwardedHeaders.TrustedIPs)
		c.upgrades(at+".http.upgradeProtocols", point.HTTP.UpgradeProtocols)
		c.entryPointHTTP(at, &point)
		c.redirection(e, name)
		c.entryPointTransport(at+".transport", &point.Transport)
	}
}

// entryPointAddress checks the address of an entry point. Those of UDP have ports of their
// own, and none of the options that decide how requests are served.
func (c *checker) entryPointAddress(at string, point *EntryPoint) {
	address, udp := point.Listen()
	if !udp {
		c.address(at+".address", address)
		return
	}
	if _, err := parseListen(address); err != nil {
		c.add(at+".address", "is %s: %v", quoted(point.Address), err)
	}
	if point.UDP.Timeout <= 0 {
		c.add(at+".udp.timeout", "is %s: it has to be above 0, or a client could hold a socket for ever", point.UDP.Timeout)
	}
	if point.HTTP.TLS || point.HTTP3 != nil || point.HTTP.Redirections.EntryPoint.To != "" {
		c.add(at+".address", "is %s, which takes datagrams: remove http and http3 of the entry point, or /udp", quoted(point.Address))
	}
}

// upgrades checks the protocols of an entry point. A backend that switches to a
// version of HTTP takes further requests that no rule has seen.
func (c *checker) upgrades(option string, list []string) {
	for _, text := range list {
		name, version, _ := strings.Cut(strings.ToLower(text), "/")
		switch {
		case name == "" || strings.ContainsAny(name+version, " ,;/\"\t"):
			c.add(option, "has %s: write a protocol such as websocket or SPDY/3.1", quoted(text))
		case name == "h2c" || name == "h2" || name == "http" || name == "tls":
			c.add(option, "has %s, whose requests would bypass the routes: remove it", quoted(text))
		}
	}
}

// networks checks a list of networks one by one, so that every wrong item is
// reported.
func (c *checker) networks(option string, list []string) {
	for _, text := range list {
		if _, err := ParseNetworks([]string{text}); err != nil {
			c.add(option, "has %s: write an address or a network such as 10.0.0.0/8", quoted(text))
		}
	}
}

// entryPointHTTP checks the HTTP limits of an entry point. The bounds exclude
// values that would block all clients or allow exhausting memory.
func (c *checker) entryPointHTTP(at string, point *EntryPoint) {
	c.within(at+".http.maxHeaderBytes", point.HTTP.MaxHeaderBytes, 1<<10, 1<<20)
	c.within(at+".http.maxHeaders", point.HTTP.MaxHeaders, 10, 10_000)
	c.within(at+".http2.maxConcurrentStreams", point.HTTP2.MaxConcurrentStreams, 1, 10_000)
	if point.HTTP3 == nil {
		return
	}
	c.within(at+".http3.advertisedPort", point.HTTP3.AdvertisedPort, 0, 1<<16-1)
	if !point.HTTP.TLS {
		c.add(at+".http3", "is on, but http.tls is not: HTTP/3 is always encrypted, so set %s.http.tls=true", at)
	}
}

// redirection checks that a redirect leads to another entry point or to a port,
// and not back to itself.
func (c *checker) redirection(e *Edge, name string) {
	redirect := e.EntryPoints[name].HTTP.Redirections.EntryPoint
	option := "entryPoints." + name + ".http.redirections.entryPoint"
	if redirect.To == "" {
		return
	}
	c.oneOf(option+".scheme", redirect.Scheme, "http", "https")
	c.within(option+".priority", redirect.Priority, -1<<31, 1<<31-1)
	// A port may be one that a load balancer serves, so it need not be an entry
	// point of this edge.
	if port, isPort := strings.CutPrefix(redirect.To, ":"); isPort {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			c.add(option+".to", "is %s: write :port with a number from 1 to 65535", quoted(redirect.To))
		}
		return
	}
	target, known := e.EntryPoints[redirect.To]
	_, udp := target.Listen()
	switch {
	case !known || udp:
		c.add(option+".to", "is %s, which is no entry point: name one, or write :port", quoted(redirect.To))
	case redirect.To == name:
		c.add(option+".to", "is the entry point itself: clients would go round in circles")
	}
}

// entryPointTransport checks limits and timeouts. No timeout may be unlimited:
// a slow client could hold a connection forever.
func (c *checker) entryPointTransport(at string, t *Transport) {
	c.within(at+".maxConnections", t.MaxConnections, 1, 10_000_000)
	c.within(at+".maxConnectionsPerSource", t.MaxConnectionsPerSource, 0, 10_000_000)
	c.notNegative(at+".maxHold", t.MaxHold)
	for _, wait := range []struct {
		name string
		time Duration
	}{
		{"headerTimeout", t.RespondingTimeouts.HeaderTimeout}, {"readTimeout", t.RespondingTimeouts.ReadTimeout},
		{"writeTimeout", t.RespondingTimeouts.WriteTimeout}, {"idleTimeout", t.RespondingTimeouts.IdleTimeout},
	} {
		if wait.time <= 0 {
			c.add(at+".respondingTimeouts."+wait.name, "is %s: it has to be above 0, or one client could hold a connection for ever", wait.time)
		}
	}
	// The two grace periods may be 0, which drains at once.
	c.notNegative(at+".lifeCycle.requestAcceptGraceTimeout", t.LifeCycle.RequestAcceptGraceTimeout)
	c.notNegative(at+".lifeCycle.graceTimeOut", t.LifeCycle.GraceTimeOut)
}

// within checks that a number is in a range, both ends included.
func (c *checker) within(option string, value, least, most int) {
	if value < least || value > most {
		c.add(option, "is %d: choose a number from %d to %d", value, least, most)
	}
}
