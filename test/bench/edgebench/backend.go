package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// largeName is the file with the large answer.
	largeName = "large.bin"
	// seenName is asked for to see what the backend was told about the client.
	seenName = "seen"
)

// freeAddresses are loopback addresses that nobody listens on, all different.
// Somebody else could take one before its user does; then that one says so and
// ends.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Closed only at the end, or the kernel could give the same one again.
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// startBackend runs the nginx that all proxies forward to.
func startBackend(ctx context.Context, dir string) (backend *child, address string, err error) {
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	address = addresses[0]
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(filepath.Join(files, largeName), []byte(strings.Repeat("x", largeBody)), 0o644); err != nil {
		return nil, "", err
	}
	command, err := nginxCommand(dir, 1, fmt.Sprintf(`	server {
		listen %s backlog=4096;
		location / { return 200 "%s"; }
		location = /%s { return 200 "$http_x_forwarded_for $http_x_forwarded_proto"; }
		location = /%s { root %s; }
	}
`, address, strings.Repeat("x", smallBody), seenName, largeName, files))
	if err != nil {
		return nil, "", err
	}
	backend, err = startChild("backend", dir, command)
	if err != nil {
		return nil, "", err
	}
	ready := func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := backend.await(ctx, ready); err != nil {
		backend.stop()
		return nil, "", err
	}
	return backend, address, nil
}

// nginxCommand writes the configuration of an nginx whose http block has the
// given text, and gives the command that runs it. It keeps connections for as
// many requests as come.
func nginxCommand(dir string, workers int, text string) (*exec.Cmd, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "worker_processes %d;\ndaemon off;\npid %s/nginx.pid;\nerror_log stderr error;\nworker_rlimit_nofile 20000;\n", workers, dir)
	b.WriteString("events { worker_connections 10000; }\nhttp {\n\taccess_log off;\n\tsendfile on;\n\tkeepalive_requests 1000000000;\n")
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
