package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// tools holds the versions of the programs of a run, for the report.
type tools struct {
	versions []version
}

// version is the name of a proxy and the version that the program reports.
type version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// packages maps programs to the Debian packages that contain them. A needed
// program without a package is one that is built here.
func packages() map[string]string {
	return map[string]string{
		"nginx": "nginx-light", "haproxy": "haproxy", "caddy": "caddy", "wrk": "wrk", "h2load": "nghttp2-client",
		emulator: "qemu-user", "gcc": "gcc", tracer: "strace",
	}
}

// findTools checks that all programs of the selected scenarios are installed
// and that localhost resolves to 127.0.0.1, before any measurement starts. The
// error lists every missing package at once.
func findTools(ctx context.Context, s *settings) (*tools, error) {
	needed := []string{"nginx", "wrk"} // the backend is an nginx
	for _, sc := range s.scenarios {
		if sc.proto == "HTTP/2.0" || sc.share > 0 || sc.storm {
			needed = append(needed, "h2load")
		}
	}
	for _, p := range s.peers {
		needed = append(needed, p.program)
	}
	if s.instructions {
		needed = append(needed, emulator, "gcc")
	}
	if s.syscalls {
		needed = append(needed, tracer)
	}
	// Peers can share a program, so duplicates are removed below.
	slices.Sort(needed)
	var install, build []string
	for _, name := range slices.Compact(needed) {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if pkg, ok := packages()[name]; ok {
			install = append(install, pkg)
		} else {
			build = append(build, name)
		}
	}
	// Missing packages are reported first, missing builds only without them.
	if len(install) > 0 {
		return nil, fmt.Errorf("programs are missing: apt-get install --no-install-recommends %s", strings.Join(install, " "))
	}
	if len(build) > 0 {
		return nil, fmt.Errorf("%s is missing: run make build-slipway in the top folder, or name the program with -slipway", strings.Join(build, ", "))
	}
	if addresses, err := net.DefaultResolver.LookupHost(ctx, "localhost"); err != nil || !slices.Contains(addresses, "127.0.0.1") {
		return nil, fmt.Errorf("localhost must be 127.0.0.1, and is %q: add it to /etc/hosts", addresses)
	}
	found := &tools{}
	for _, p := range s.peers {
		if p.cpus > 1 {
			continue // the same program as on one CPU
		}
		found.versions = append(found.versions, version{p.name, requestVersion(ctx, p)})
	}
	return found, nil
}

// requestVersion returns the first line of a program's version output, or the text
// of the error: an unknown version does not stop a run.
func requestVersion(ctx context.Context, p peer) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, p.program, p.version...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}
