package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

// nginxName is the only value of -peer.
const nginxName = "nginx"

// runPeer runs the loads against nginx, after the edge has stopped: the backend
// has no room for the connections of both. The cost of its requests with many
// hosts shows what the kernel spends on that many sockets, as a reference for
// the edge.
func (b *bench) runPeer(ctx context.Context) (err error) {
	process, err := startNginx(b.world, b.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.End(nil)) }()
	c := newClient(plainAddress)
	defer c.close()
	err = process.Await(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		_, err := c.do(ctx, wideHost)
		return err
	})
	if err != nil {
		return err
	}
	f := &peerFigures{Name: nginxName}
	if err := b.warmUp(ctx, process.PID(), b.world.inTurn(), wide); err != nil {
		return err
	}
	turns := append(b.world.endpointTurns(&f.requestFigures), b.world.nameTurns(&f.requestFigures)...)
	if err := b.takeTurns(ctx, process.PID(), turns); err != nil {
		return err
	}
	b.figures.Peer = f
	b.report("%s: %.1f µs CPU per request for one host, %.1f µs for one with all endpoints, %.1f µs for all hosts; %.1f µs for all names by one route, %.1f µs by as many",
		f.Name, f.One, f.Wide, f.All, f.Any, f.Shared)
	return nil
}

// startNginx starts an nginx with the same hosts and endpoints as the cluster,
// and the hosts of the shared loads. It runs as one process: each worker has
// its own connection pool, and the backend has no room for those of two.
func startNginx(w *world, dir string) (*programs.Process, error) {
	program, err := exec.LookPath(nginxName)
	if err != nil {
		return nil, fmt.Errorf("install it with scripts/install-packages.sh bench: %w", err)
	}
	dir = filepath.Join(dir, nginxName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(nginxText(w, dir)), 0o644); err != nil {
		return nil, err
	}
	command := exec.Command(program, "-e", "stderr", "-p", dir, "-c", file)
	return ground.StartProgram(nginxName, filepath.Join(dir, "nginx.log"), command)
}

// nginxText returns the configuration of nginx. It sets the headers that the
// edge sets, so that both do the same work per request.
func nginxText(w *world, dir string) string {
	hosts := w.loadHosts()
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off;\nmaster_process off;\npid %s/nginx.pid;\nerror_log stderr error;\n", dir)
	fmt.Fprintf(&b, "events { worker_connections %d; }\nhttp {\n", openFiles()-64)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	b.WriteString(`	access_log off;
	keepalive_requests 1000000000;
	server_names_hash_max_size 65536;
	server_names_hash_bucket_size 128;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header Host $host;
	proxy_set_header X-Forwarded-For $remote_addr;
	proxy_set_header X-Forwarded-Proto $scheme;
`)
	// upstream writes an upstream block with a pool of keep idle connections.
	upstream := func(name string, keep int, addresses ...netip.Addr) {
		fmt.Fprintf(&b, "\tupstream %s {", name)
		for _, address := range addresses {
			fmt.Fprintf(&b, " server %s;", netip.AddrPortFrom(address, backendPort))
		}
		fmt.Fprintf(&b, " keepalive %d; keepalive_requests 1000000000; }\n", keep)
	}
	options := " backlog=4096" // socket options may be given once per address
	// server writes a virtual host on plainAddress.
	server := func(host, upstream string) {
		fmt.Fprintf(&b, "\tserver { listen %s%s; server_name %s; location / { proxy_pass http://%s; } }\n", plainAddress, options, host, upstream)
		options = ""
	}
	var all []netip.Addr
	for i := range hosts {
		all = append(all, endpointOf(i, false))
	}
	// The pool holds a connection to every endpoint, with room for those in
	// flight.
	upstream(wideName, hosts+loadConnections, all...)
	server(wideHost, wideName)
	for i := 0; i < w.apps; i++ {
		upstream(appName(i), loadConnections, w.of(i).want)
		server(hostOf(i), appName(i))
	}
	server("*."+anyDomain, appName(0))
	for i := range hosts {
		server(sharedHost(i), appName(0))
	}
	b.WriteString("}\n")
	return b.String()
}
