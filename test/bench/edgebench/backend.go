package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/programs"
)

const (
	// largeName and hugeName are the files with the large response bodies.
	largeName = "large.bin"
	hugeName  = "huge.bin"
	// seenName is the path at which the backend echoes the X-Forwarded headers
	// that it received.
	seenName = "seen"
)

// freeAddresses returns distinct loopback addresses that have no listener.
// Another process can take one before the proxy listens on it; the proxy then
// fails to start and reports the conflict in its log.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// All listeners stay open until the end, because the kernel could
		// otherwise assign the same port twice.
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// startBackend starts the nginx that all proxies forward to, at some addresses, and
// waits until it accepts connections. Its one worker is the same for every proxy. The
// caller must stop it.
func startBackend(ctx context.Context, dir string, addresses []string) (backend *programs.Process, err error) {
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	for name, size := range map[string]int{largeName: largeBody, hugeName: hugeBody} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(strings.Repeat("x", size)), 0o644); err != nil {
			return nil, err
		}
	}
	var listen strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&listen, "\t\tlisten %s backlog=4096;\n", address)
	}
	command, err := nginxCommand(dir, 1, 0, fmt.Sprintf(`	server {
%s
		location / { return 200 "%s"; }
		location = /%s { return 200 "$http_x_forwarded_for $http_x_forwarded_proto"; }
		location = /%s { root %s; }
		location = /%s { root %s; }
	}
`, &listen, strings.Repeat("x", smallBody), seenName, largeName, files, hugeName, files))
	if err != nil {
		return nil, err
	}
	backend, err = startChild("backend", dir, command)
	if err != nil {
		return nil, err
	}
	// An accepted connection suffices here: the probe of each proxy checks the
	// responses of the backend.
	ready := func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addresses[len(addresses)-1])
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := await(ctx, backend, ready); err != nil {
		_ = backend.End(nil) // the first error counts
		return nil, err
	}
	return backend, nil
}

// nginxCommand writes the configuration of an nginx whose http block contains
// text, and returns the command that runs it. Each worker can take all of the
// connections. keepalive_requests is unlimited
// in effect: by default nginx closes a connection after 1000 requests. All
// temporary paths are below dir, because the compiled-in ones may need root.
func nginxCommand(dir string, workers, connections int, text string) (*exec.Cmd, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "worker_processes %d;\ndaemon off;\npid %s/nginx.pid;\nerror_log stderr error;\nworker_rlimit_nofile %d;\n", workers, dir, max(connections+otherFiles, 60_000))
	fmt.Fprintf(&b, "events { worker_connections %d; }\nhttp {\n\taccess_log off;\n\tsendfile on;\n\tkeepalive_requests 1000000000;\n\tkeepalive_timeout %ds;\n",
		max(connections+otherFiles, 25_000), int(idleTime.Seconds()))
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	b.WriteString(text + "}\n")
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	return exec.Command("nginx", "-e", "stderr", "-p", dir, "-c", file), nil
}
