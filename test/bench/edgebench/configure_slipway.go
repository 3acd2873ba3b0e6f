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
			"--entryPoints.web.address="+s.address)
		if s.tls != nil {
			command.Args = append(command.Args, "--entryPoints.web.http.tls=true")
		}
		command.Env = environment
		return command, nil
	}
	return peer{
		name: name, program: program, version: []string{"version"},
		prepare: prepare, lacks: unknownOption, profiles: true,
	}
}

// slipwayTable converts the site to a routing table: one rule per route, and
// one backend for all of them.
func slipwayTable(s *site) (*route.Table, error) {
	endpoint, err := netip.ParseAddrPort(s.backend)
	if err != nil {
		return nil, err
	}
	backend := route.BackendID{Name: "backend"}
	table := &route.Table{Backends: []*route.Backend{{ID: backend, Endpoints: []route.Endpoint{{Address: endpoint}}}}}
	if s.grpc {
		table.Backends[0].Transport.Protocol = route.ProtocolH2C
	}
	for i, r := range s.routes {
		table.Rules = append(table.Rules, &route.Rule{
			ID:       route.ID{Name: fmt.Sprintf("route-%05d", i)},
			Host:     r.host,
			Match:    route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: r.prefix}},
			Backends: []route.BackendRef{{Backend: backend}},
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
