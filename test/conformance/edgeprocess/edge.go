package edgeprocess

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/binary"
)

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
	*programs.Process
	points  map[string]string // address by entry point
	servers map[string]string // address by server: admin and health
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
	must.Do(t, route.Encode(&text, options.Table))
	must.Do(t, os.WriteFile(routes, text.Bytes(), 0o600))
	arguments := []string{
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--providers.file.filename=" + routes, "--providers.file.watch=false",
	}
	for _, name := range options.EntryPoints {
		arguments = append(arguments, "--entryPoints."+name+".address=127.0.0.1:0")
	}
	command := exec.Command(os.Getenv(binary.Variable), append(arguments, options.Arguments...)...)
	// Only arguments configure the edge. It rejects variables with its prefix
	// that it does not recognize, and the test environment has some of its own.
	command.Env = programs.UserEnvironment()
	e := &Edge{Process: programs.Run(t, "the edge", command), points: map[string]string{}, servers: map[string]string{}}
	for _, name := range options.EntryPoints {
		e.points[name] = e.Process.Address(t, name)
	}
	for _, name := range []string{"admin", "health"} {
		e.servers[name] = e.Process.Address(t, name)
	}
	return e
}

// Address returns the address of an entry point.
func (e *Edge) Address(entryPoint string) string { return e.points[entryPoint] }

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
