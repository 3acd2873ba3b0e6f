package smuggling

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	"slipway.dev/slipway/test/conformance/edgeprocess"
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
	dir, err := os.MkdirTemp("", "smuggling-")
	if err != nil {
		t.Fatal(err)
	}
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
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
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
		// It was not received whole, and nobody waits for an answer.
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
	text, err := os.ReadFile("testdata/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("DIR"), []byte(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "nginx.sock")
	command := exec.Command(program, "-c", file, "-p", dir, "-e", filepath.Join(dir, "nginx.log"))
	var said bytes.Buffer
	command.Stderr = &said
	stop := run(t, command, syscall.SIGQUIT)
	await(t, socket, &said)
	return &backend{name: "nginx", socket: socket, ledger: sink.ledger, finish: func() {
		stop() // gracefully: what it has begun it passes on
		sink.finish()
	}}
}

// startNode serves with Node.
func startNode(t *testing.T, dir string) *backend {
	t.Helper()
	socket := filepath.Join(dir, "node.sock")
	command := exec.Command(find(t, "node"), "testdata/backend.js", socket)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command.Stderr = &said
	stop := run(t, command, syscall.SIGTERM, stdout)
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "listening" {
		t.Fatalf("node does not listen: %q %s", lines.Text(), said.String())
	}
	b := &backend{name: "node", socket: socket, ledger: &ledger{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			var r record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("node says %q: %v", lines.Text(), err)
				return
			}
			b.ledger.add(r)
		}
	}()
	b.finish = func() {
		stop()
		<-read
	}
	return b
}

// run starts a program and returns what stops it. A program that does not end
// by itself is killed. Output that is read has to be read to its end before the
// program counts as ended.
func run(t *testing.T, command *exec.Cmd, gentle syscall.Signal, output ...io.Closer) (stop func()) {
	t.Helper()
	edgeprocess.Tie(command)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(gentle)
		kill := time.AfterFunc(backendTimeout, func() {
			t.Errorf("%s does not end", command.Path)
			_ = command.Process.Kill()
		})
		defer kill.Stop()
		if len(output) > 0 {
			_, _ = command.Process.Wait()
			return
		}
		if err := command.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			t.Errorf("%s: %v", command.Path, err)
		}
	})
	t.Cleanup(func() {
		stop()
		for _, o := range output {
			_ = o.Close()
		}
	})
	return stop
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

// await returns when somebody listens on a socket.
func await(t *testing.T, socket string, said *bytes.Buffer) {
	t.Helper()
	for deadline := time.Now().Add(backendTimeout); ; {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody listens: %v %s", err, said.String())
		}
		<-time.After(10 * time.Millisecond)
	}
}
