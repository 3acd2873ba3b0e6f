package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// site describes what a proxy has to serve. All proxies of a scenario get the
// same routes and backend; addresses and dir are per turn.
type site struct {
	dir     string // for the proxy's files
	address string // where it takes traffic
	admin   string // where it may listen besides
	health  string // the same
	backend string // where it forwards to
	routes  []routeKey
	// endpoints is where each route forwards to, in the order of routes; nil if all
	// forward to backend.
	endpoints []string
	tls       *identity // nil is plain
	grpc      bool      // the backend speaks HTTP/2 without TLS
	upgrade   bool      // connections become WebSockets
	http3     bool      // the proxy serves HTTP/3 on the same port
	// connections is how many clients the proxy has to take at once, and workers the number of its processes or threads;
	// 0 is the usual number.
	connections, workers int
}

const (
	// usualWorkers is the number of nginx's processes and of HAProxy's threads.
	usualWorkers = 2
	// idleTime is how long the proxies keep an idle connection: opening many takes a while.
	idleTime = 10 * time.Minute
)

// requested returns the route for loads that use a single one. It is the middle of
// the list, because a proxy that matches its routes one after the other finds
// the first ones quickly.
func (s *site) requested() routeKey { return s.routes[len(s.routes)/2] }

// scheme returns the scheme of the client side, which is also the expected
// X-Forwarded-Proto.
func (s *site) scheme() string {
	if s.tls != nil {
		return "https"
	}
	return "http"
}

// write creates a file in the site's directory and returns its path.
func (s *site) write(name, text string) (string, error) {
	file := filepath.Join(s.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// backends are the distinct addresses that the proxy forwards to.
func (s *site) backends() []string {
	if s.endpoints != nil {
		return s.endpoints
	}
	return []string{s.backend}
}

// backendOf is the number in backends of where a route forwards to.
func (s *site) backendOf(route int) int {
	if s.endpoints != nil {
		return route
	}
	return 0
}

// hosts calls each with every host and its prefixes, in order. Routes of one
// host must be adjacent, as routeKeys generates them.
func (s *site) hosts(each func(host string, prefixes []string)) {
	// Each iteration consumes the run of routes that share a host.
	for i := 0; i < len(s.routes); {
		host := s.routes[i].host
		var prefixes []string
		for ; i < len(s.routes) && s.routes[i].host == host; i++ {
			prefixes = append(prefixes, s.routes[i].prefix)
		}
		each(host, prefixes)
	}
}

// peer is a proxy that can be measured. It is immutable; prepare is called once
// per turn.
type peer struct {
	name    string
	program string
	version []string // the arguments that print its version
	// prepare writes the configuration for a site and returns the command that
	// serves it in the foreground.
	prepare func(*site) (*exec.Cmd, error)
	// lacks is the message by which the program reports an unknown option;
	// empty if there is no such message. A proxy that exits with it is skipped
	// in the scenario instead of failing it.
	lacks string
	// profiles is set if the proxy serves /debug/pprof at site.admin.
	profiles bool
	// http3 is set if the proxy serves HTTP/3; others are skipped in its scenarios.
	http3 bool
	// cpus restricts the proxy to so many CPUs; 0 leaves it all.
	cpus int
}

// Names of the peers that other code refers to: the baseline of the comparison,
// and the one that -profile records.
const (
	nginxName   = "nginx" // the baseline of the comparison
	slipwayName = "slipway"
)

// housePeers returns all proxies, in the order of their turns. The baseline
// comes first.
func housePeers(slipway string) []peer {
	return []peer{
		{name: nginxName, program: "nginx", version: []string{"-v"}, prepare: prepareNginx},
		{name: "haproxy", program: "haproxy", version: []string{"-v"}, prepare: prepareHAProxy},
		{name: "caddy", program: "caddy", version: []string{"version"}, prepare: prepareCaddy, http3: true},
		slipwayPeer(slipwayName, slipway, nil),
	}
}

// peerNames returns the names of peers in order, for flags and their help.
func peerNames(peers []peer) []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}
