package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// unknownOption is the message of a slipway build that does not support an
// option.
const unknownOption = "unknown option"

// slipwayPeer returns a slipway edge with its routes in a file. The environment
// is added to that of startChild, for variants such as GOGC=400.
func slipwayPeer(name, program string, environment []string) peer {
	prepare := func(s *site) (*exec.Cmd, error) {
		table, err := slipwayTable(s)
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		if err := route.Encode(&text, table); err != nil {
			return nil, err
		}
		file, err := s.write("routes.json", text.String())
		if err != nil {
			return nil, err
		}
		// The child runs in another folder.
		path, err := filepath.Abs(program)
		if err != nil {
			return nil, err
		}
		// The file provider does not watch, so no reload can fall into the
		// measurement. The admin address serves the profiles.
		command := exec.Command(path, "edge",
			"--log.level=warn", "--admin.address="+s.admin, "--health.address="+s.health,
			"--providers.file.filename="+file, "--providers.file.watch=false",
			"--entryPoints.web.address="+s.address,
			"--entryPoints.web.transport.respondingTimeouts.idleTimeout="+idleTime.String())
		if s.connections > 0 { // 10,000 are the default
			command.Args = append(command.Args, fmt.Sprintf("--entryPoints.web.transport.maxConnections=%d", s.connections+otherFiles))
		}
		if s.tls != nil {
			command.Args = append(command.Args, "--entryPoints.web.http.tls=true")
		}
		if s.http3 {
			command.Args = append(command.Args, "--entryPoints.web.http3=true")
		}
		command.Env = environment
		return command, nil
	}
	return peer{
		name: name, program: program, version: []string{"version"},
		prepare: prepare, lacks: unknownOption, profiles: true, http3: true,
	}
}

// slipwayTable converts the site to a routing table: one rule per route, and
// one backend for all of them or for each.
func slipwayTable(s *site) (*route.Table, error) {
	table := &route.Table{}
	for i, address := range s.backends() {
		endpoint, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		backend := &route.Backend{ID: route.BackendID{Name: fmt.Sprintf("backend-%d", i)}, Endpoints: []route.Endpoint{{Address: endpoint}}}
		if s.grpc {
			backend.Transport.Protocol = route.ProtocolH2C
		}
		table.Backends = append(table.Backends, backend)
	}
	for i, r := range s.routes {
		table.Rules = append(table.Rules, &route.Rule{
			ID:       route.ID{Name: fmt.Sprintf("route-%05d", i)},
			Host:     r.host,
			Match:    route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: r.prefix}},
			Backends: []route.BackendRef{{Backend: table.Backends[s.backendOf(i)].ID}},
		})
	}
	// The table contains the certificate itself, so the key is read here rather
	// than by the edge.
	if s.tls == nil {
		return table, nil
	}
	chain, err := os.ReadFile(s.tls.chainFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(s.tls.keyFile)
	if err != nil {
		return nil, err
	}
	table.Certificates = []*route.Certificate{{
		ID: route.CertificateID{Name: "bench"}, Hosts: []string{s.routes[0].host},
		Chain: string(chain), Key: route.NewSecret(string(key)),
	}}
	return table, nil
}
