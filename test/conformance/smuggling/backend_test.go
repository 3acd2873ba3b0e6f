package smuggling

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// backendTimeout bounds the start and the end of a backend.
const backendTimeout = 20 * time.Second

// ledger is what a backend believes to have received.
type ledger struct {
	mu      sync.Mutex
	records []record
}

func (l *ledger) add(r record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

// backend is a server on a socket. Its ledger is complete after finish.
type backend struct {
	name   string
	socket string
	ledger *ledger
	finish func()
}

// startBackends starts one of each kind, until the end of the test.
func startBackends(t *testing.T) []*backend {
	t.Helper()
	// The path of a socket has to be short, and that of t.TempDir is not.
	dir := must.Get(os.MkdirTemp("", "smuggling-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	backends := []*backend{startGo(t, "go", filepath.Join(dir, "go.sock")), startNginx(t, dir), startNode(t, dir)}
	for _, b := range backends {
		b.finish = sync.OnceFunc(b.finish)
		t.Cleanup(b.finish)
	}
	return backends
}

// startGo serves with net/http.
func startGo(t *testing.T, name, socket string) *backend {
	t.Helper()
	listener := must.Get(net.Listen("unix", socket))(t)
	b := &backend{name: name, socket: socket, ledger: &ledger{}}
	server := &http.Server{Handler: http.HandlerFunc(b.ledger.serve), DisableGeneralOptionsHandler: true, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	b.finish = func() {
		ctx, cancel := context.WithTimeout(context.Background(), backendTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("backend %s: %v", name, err)
			_ = server.Close()
		}
		<-done
	}
	return b
}

func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		// It was not received whole, and no client waits for a response.
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	seen := record{
		Nonce: strings.Join(r.Header.Values("X-Nonce"), ","), Method: r.Method, Target: r.RequestURI,
		Host: r.Host, Length: len(body), Sum: sumOf(body),
	}
	l.add(seen)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(seen)
}

// startNginx serves with nginx, before a sink that reports.
func startNginx(t *testing.T, dir string) *backend {
	t.Helper()
	program := find(t, "nginx", "/usr/sbin/nginx")
	sink := startGo(t, "nginx", filepath.Join(dir, "sink.sock"))
	text := must.Get(os.ReadFile("testdata/nginx.conf"))(t)
	file := filepath.Join(dir, "nginx.conf")
	must.Do(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte("DIR"), []byte(dir)), 0o600))
	socket := filepath.Join(dir, "nginx.sock")
	command := exec.Command(program, "-c", file, "-p", dir, "-e", filepath.Join(dir, "nginx.log"))
	nginx := programs.Run(t, "nginx", command)
	nginx.AwaitListener(t, "unix", socket)
	return &backend{name: "nginx", socket: socket, ledger: sink.ledger, finish: func() {
		end(t, nginx, syscall.SIGQUIT) // gracefully: what it has begun it passes on
		sink.finish()
	}}
}

// startNode serves with Node.
func startNode(t *testing.T, dir string) *backend {
	t.Helper()
	socket := filepath.Join(dir, "node.sock")
	node := programs.Run(t, "node", exec.Command(find(t, "node"), "testdata/backend.js", socket))
	node.AwaitOutput(t, node.Out, "listening\n")
	b := &backend{name: "node", socket: socket, ledger: &ledger{}}
	b.finish = func() {
		end(t, node, syscall.SIGTERM)
		_, records, _ := strings.Cut(node.Out.String(), "listening\n")
		for line := range strings.Lines(records) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Errorf("node says %q: %v", line, err)
				return
			}
			b.ledger.add(r)
		}
	}
	return b
}

// end ends a backend gracefully.
func end(t *testing.T, backend *programs.Process, gentle syscall.Signal) {
	t.Helper()
	if err := backend.End(func() error { return backend.Signal(gentle) }); err != nil {
		t.Error(err)
	}
}

// find is where a program is.
func find(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("%s is missing: install it with `make deps`", names[0])
	return ""
}
