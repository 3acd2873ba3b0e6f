package main

import (
	"os"
	"os/exec"
	"path/filepath"
)

// site is what a proxy is asked to serve. All proxies get the same one.
type site struct {
	dir     string // for the proxy's files
	address string // where it takes traffic
	admin   string // where it may listen besides
	health  string // the same
	backend string // where it forwards to
	routes  []routeKey
	tls     *identity // nil is plain
}

// asked is the route that is asked for where only one is. It is in the middle,
// because a proxy that tries its routes one after the other knows the first
// ones quickly.
func (s *site) asked() routeKey { return s.routes[len(s.routes)/2] }

// scheme is what the client's side is told to be.
func (s *site) scheme() string {
	if s.tls != nil {
		return "https"
	}
	return "http"
}

// write puts a file into the site's folder and returns its name.
func (s *site) write(name, text string) (string, error) {
	file := filepath.Join(s.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// hosts calls a function with each host and its prefixes, in order.
func (s *site) hosts(each func(host string, prefixes []string)) {
	for i := 0; i < len(s.routes); {
		host := s.routes[i].host
		var prefixes []string
		for ; i < len(s.routes) && s.routes[i].host == host; i++ {
			prefixes = append(prefixes, s.routes[i].prefix)
		}
		each(host, prefixes)
	}
}

// peer is a proxy that can be measured.
type peer struct {
	name    string
	program string
	version []string // the arguments that make it tell its version
	// prepare writes the configuration for a site and gives the command.
	prepare func(*site) (*exec.Cmd, error)
	// lacks is how it says that it does not know an option; empty if it has no
	// such way. What it does not know, it is not measured in.
	lacks string
	// profiles says that it serves profiles at site.admin.
	profiles bool
}

// The names of those that the program knows more about.
const (
	nginxName   = "nginx" // what the others are compared with
	slipwayName = "slipway"
)

// housePeers are all there are, in the order in which they take their turns.
func housePeers(slipway string) []peer {
	return []peer{
		{name: nginxName, program: "nginx", version: []string{"-v"}, prepare: prepareNginx},
		{name: "haproxy", program: "haproxy", version: []string{"-v"}, prepare: prepareHAProxy},
		{name: "caddy", program: "caddy", version: []string{"version"}, prepare: prepareCaddy},
		slipwayPeer(slipwayName, slipway, nil),
	}
}

func peerNames(peers []peer) []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}
