package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/slipway/test/e2e/node"
)

// gitServer serves a repository read-only over HTTPS through git-http-backend,
// so the agent speaks to a real Git server. It runs on the node's address,
// outside of the cluster.
type gitServer struct {
	clone  string // the working copy of the repository
	server *http.Server
}

// startGit creates the bare repository and a working copy, and serves the
// former on the node's address. The certificate is signed by the CA of the run,
// which the runtime trusts through its values.
func startGit(work string, signs *authority) (*gitServer, error) {
	repositories := filepath.Join(work, "git")
	g := &gitServer{clone: filepath.Join(work, "clone")}
	for _, words := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", filepath.Join(repositories, "apps.git")},
		{"init", "--quiet", "--initial-branch=main", g.clone},
		{"-C", g.clone, "remote", "add", "origin", filepath.Join(repositories, "apps.git")},
	} {
		if _, err := git(words...); err != nil {
			return nil, err
		}
	}
	// git-http-backend is not in PATH; its folder depends on the distribution.
	programs, err := git("--exec-path")
	if err != nil {
		return nil, err
	}
	certificate, err := signs.serving(gitHost)
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(node.Address().String(), "443"), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	g.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(programs), "git-http-backend"),
		// Git refuses repositories of another owner, and the CGI process has no
		// HOME to read a configuration from.
		Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}}
	go func() { _ = g.server.Serve(listener) }() // it ends with stop
	return g, nil
}

// stop closes the listener and all connections. No client needs a drain here.
func (g *gitServer) stop() error { return g.server.Close() }

// push commits files to main and returns the commit. A file that is not named
// stays as it is.
func (g *gitServer) push(message string, files map[string]string) (string, error) {
	for name, text := range files {
		path := filepath.Join(g.clone, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return "", err
		}
	}
	for _, words := range [][]string{
		{"add", "--all"}, {"-c", "user.name=e2e", "-c", "user.email=e2e@example.com", "commit", "--quiet", "--message", message}, {"push", "--quiet", "origin", "main"},
	} {
		if _, err := git(append([]string{"-C", g.clone}, words...)...); err != nil {
			return "", err
		}
	}
	commit, err := git("-C", g.clone, "rev-parse", "HEAD")
	return strings.TrimSpace(commit), err
}

// git runs a git command and returns its output, with a timeout of a minute.
// The error includes what git printed to standard error.
func git(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "git", words...).Output()
	if err != nil {
		var problem *exec.ExitError
		errors.As(err, &problem)
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(words, " "), err, problem.Stderr)
	}
	return string(output), nil
}
