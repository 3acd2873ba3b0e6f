package edgeprocess

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/binary"
)

// startTimeout bounds the start of a process on a busy machine.
const startTimeout = 30 * time.Second

// Options configure an edge.
type Options struct {
	// EntryPoints are the names of the entry points. The default is one called
	// web.
	EntryPoints []string
	// Table is the routing table to serve.
	Table *route.Table
	// Arguments are additional options of `slipway edge`, after the defaults.
	Arguments []string
}

// Edge is a running `slipway edge`.
type Edge struct {
	command *exec.Cmd
	points  map[string]string // address by entry point
	servers map[string]string // address by server: admin and health
	exited  chan struct{}     // closed when it is gone and its log complete

	// mu guards logged, points and servers.
	mu     sync.Mutex
	logged bytes.Buffer
}

// Start runs an edge until the end of the test. It returns when all listeners
// are bound. Every listener has port 0 on loopback, so tests run in parallel.
func Start(t *testing.T, options Options) *Edge {
	t.Helper()
	if len(options.EntryPoints) == 0 {
		options.EntryPoints = []string{"web"}
	}
	routes := filepath.Join(t.TempDir(), "routes.json")
	var text bytes.Buffer
	if err := route.Encode(&text, options.Table); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(routes, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--providers.file.filename=" + routes, "--providers.file.watch=false",
	}
	for _, name := range options.EntryPoints {
		arguments = append(arguments, "--entryPoints."+name+".address=127.0.0.1:0")
	}
	return start(t, len(options.EntryPoints), append(arguments, options.Arguments...))
}

// start runs the binary and waits until the log has announced all listeners.
func start(t *testing.T, points int, arguments []string) *Edge {
	t.Helper()
	e := &Edge{
		command: exec.Command(os.Getenv(binary.Variable), arguments...),
		points:  map[string]string{}, servers: map[string]string{}, exited: make(chan struct{}),
	}
	// Only arguments configure the edge. It rejects variables with its prefix
	// that it does not recognize, and the test environment has some of its own.
	e.command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLIPWAY_") })
	Tie(e.command)
	stderr, err := e.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.command.Start(); err != nil {
		t.Fatalf("%v: use edgeprocess.Main as the TestMain", err)
	}
	serving := make(chan struct{})
	go e.readLog(stderr, points, serving)
	// Kill waits until the log is complete.
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("the log of the edge:\n%s", e.Log())
		}
	})
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-serving:
	case <-e.exited:
		t.Fatalf("the edge ended: %s", e.Log())
	case <-timeout.C:
		t.Fatalf("the edge does not come up: %s", e.Log())
	}
	return e
}

// readLog collects the log and the addresses in it, and closes serving once
// every entry point, the admin server and the health server listen. Wait comes
// after the last line, because it closes the pipe.
func (e *Edge) readLog(stderr io.Reader, points int, serving chan<- struct{}) {
	defer close(e.exited)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct{ Server, EntryPoint, Address string }
		err := json.Unmarshal(lines.Bytes(), &entry)
		e.mu.Lock()
		fmt.Fprintf(&e.logged, "%s\n", lines.Bytes())
		switch {
		case err != nil || entry.Address == "":
		case entry.EntryPoint != "":
			e.points[entry.EntryPoint] = entry.Address
		case entry.Server != "":
			e.servers[entry.Server] = entry.Address
		}
		all := len(e.points) == points && len(e.servers) == 2
		e.mu.Unlock()
		if all && serving != nil {
			close(serving)
			serving = nil
		}
	}
	_ = e.command.Wait() // how it ended shows in the log
}

// Address returns the address of an entry point.
func (e *Edge) Address(entryPoint string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.points[entryPoint]
}

// Log returns the log of the edge so far.
func (e *Edge) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.logged.String()
}

// Kill sends SIGKILL and waits for the exit. It may be called more than once.
func (e *Edge) Kill() {
	_ = e.command.Process.Kill() // it fails when the process is gone
	<-e.exited
}

// Backend returns a backend with one endpoint.
func Backend(name string, endpoint netip.AddrPort) *route.Backend {
	return &route.Backend{ID: route.BackendID{Name: name, Port: 80}, Endpoints: []route.Endpoint{{Address: endpoint}}}
}

// To returns the backend references of a rule with a single backend.
func To(backend *route.Backend) []route.BackendRef {
	return []route.BackendRef{{Backend: backend.ID}}
}

// Encrypted returns the option that enables TLS on an entry point, with the
// self-signed default certificate of the edge.
func Encrypted(entryPoint string) string { return "--entryPoints." + entryPoint + ".http.tls=true" }
