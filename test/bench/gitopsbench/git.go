package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// repository is a bare Git repository and the HTTP server in front of it, which
// has a Helm repository too. push is for one goroutine.
type repository struct {
	url     string
	charts  string // the address of the Helm repository
	dir     string
	server  *http.Server
	commits int
}

// serveRepository creates a repository with one commit and serves it through
// git-http-backend, the reference implementation of the smart HTTP protocol.
// The caller must close it.
func serveRepository(dir string) (*repository, error) {
	root := filepath.Join(dir, "git")
	r := &repository{dir: filepath.Join(root, "fleet.git")}
	if _, err := r.git(nil, "init", "--quiet", "--bare", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	// Clients may fetch commits by hash, as the large Git hosts allow.
	if _, err := r.git(nil, "--git-dir", r.dir, "config", "uploadpack.allowReachableSHA1InWant", "true"); err != nil {
		return nil, err
	}
	folder, err := r.git(nil, "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.url = "http://" + listener.Addr().String() + "/fleet.git"
	r.charts = "http://" + listener.Addr().String() + chartsPath
	charts, err := newChartServer()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(chartsPath+"/", charts)
	mux.Handle("/", &cgi.Handler{
		Path:   filepath.Join(folder, "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
		Stderr: io.Discard,
	})
	r.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: mux}
	go func() { _ = r.server.Serve(listener) }() // it ends with close
	_, err = r.push(map[string]string{"README.md": "Applications of a benchmark.\n"})
	return r, err
}

// close stops the server and its connections. The directory belongs to the
// caller.
func (r *repository) close() { _ = r.server.Close() }

// push commits files to main and returns the hash. It uses fast-import, which
// needs no working tree: thousands of files take one process.
func (r *repository) push(files map[string]string) (string, error) {
	var text bytes.Buffer
	// Fixed timestamps, a minute apart, make the hashes reproducible.
	fmt.Fprintf(&text, "commit refs/heads/main\ncommitter Bench <bench@example.com> %d +0000\ndata 4\npush\n", 1_760_000_000+60*r.commits)
	// Without from, fast-import would start a new history that drops all other
	// files.
	if r.commits > 0 {
		fmt.Fprintln(&text, "from refs/heads/main^0")
	}
	r.commits++
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&text, "M 100644 inline %s\ndata %d\n%s\n", path, len(files[path]), files[path])
	}
	if _, err := r.git(&text, "--git-dir", r.dir, "fast-import", "--quiet", "--force"); err != nil {
		return "", err
	}
	return r.git(nil, "--git-dir", r.dir, "rev-parse", "refs/heads/main")
}

// git runs git without the configuration of the user and the machine, so that
// settings such as commit signing cannot change the run.
func (r *repository) git(stdin io.Reader, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Stdin = stdin
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(string(out)), nil
}
