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

// Options are what an edge is started with.
type Options struct {
	// EntryPoints are the names of the entry points; none means one called web.
	EntryPoints []string
	// Table is what is served.
	Table *route.Table
	// Arguments are further options of `slipway edge`.
	Arguments []string
}

// Edge is a running `slipway edge`.
type Edge struct {
	command *exec.Cmd
	points  map[string]string // address by entry point
	servers map[string]string // address by server: admin and health
	exited  chan struct{}     // closed when it is gone and its log complete

	mu     sync.Mutex
	logged bytes.Buffer
}

// Start runs an edge until the end of the test, and returns when it takes
// traffic.
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

func start(t *testing.T, points int, arguments []string) *Edge {
	t.Helper()
	e := &Edge{
		command: exec.Command(os.Getenv(binary.Variable), arguments...),
		points:  map[string]string{}, servers: map[string]string{}, exited: make(chan struct{}),
	}
	// The options are the arguments alone, whatever the environment of the tests
	// has; the edge refuses variables of its prefix that it does not know.
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

// readLog keeps the log, and closes serving when all addresses are known.
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

// Address is where an entry point takes traffic.
func (e *Edge) Address(entryPoint string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.points[entryPoint]
}

// Log is what the edge has logged so far.
func (e *Edge) Log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.logged.String()
}

// Kill ends the process at once. It may be called more than once.
func (e *Edge) Kill() {
	_ = e.command.Process.Kill() // it fails when the process is gone
	<-e.exited
}

// Backend is a backend with one endpoint.
func Backend(name string, endpoint netip.AddrPort) *route.Backend {
	return &route.Backend{ID: route.BackendID{Name: name, Port: 80}, Endpoints: []route.Endpoint{{Address: endpoint}}}
}

// To is the list of references of a rule that has one backend.
func To(backend *route.Backend) []route.BackendRef {
	return []route.BackendRef{{Backend: backend.ID}}
}

// Encrypted is the option that makes an entry point take encrypted connections,
// with a certificate that the edge makes itself.
func Encrypted(entryPoint string) string { return "--entryPoints." + entryPoint + ".http.tls=true" }
