package limits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { edgeprocess.Main(m) }

const (
	edges = 3
	// waitTimeout bounds the wait for a condition.
	waitTimeout = time.Minute
)

// long reports whether there is time.
func long() bool { return os.Getenv("LIMITS") == "long" }

// world is three edges on loopback addresses of their own, with the same ports, so
// that one can be started again.
type world struct {
	arguments []string
	replicas  [edges]*replica
}

type replica struct {
	*programs.Process
	address string // of its entry point
	health  string
	limits  string // where the others connect to
	client  *http.Client
}

// newWorld starts edges that serve a rule with the policies of a limit.
func newWorld(t *testing.T, policies ...route.Policy) *world {
	t.Helper()
	dir := t.TempDir()
	routes, shared := filepath.Join(dir, "routes.json"), filepath.Join(dir, "secret")
	var text bytes.Buffer
	must.Do(t, route.Encode(&text, &route.Table{Rules: []*route.Rule{{
		ID: route.ID{Name: "limited"}, Response: &route.Response{Status: 200}, Policies: policies,
	}}}))
	must.Do(t, os.WriteFile(routes, text.Bytes(), 0o600))
	must.Do(t, os.WriteFile(shared, bytes.Repeat([]byte("s"), 32), 0o600))
	ports := freePorts(t, 3)
	var peers []string
	for i := range edges {
		peers = append(peers, loopback(i, ports[1]))
	}
	w := &world{arguments: []string{
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--providers.file.filename=" + routes, "--providers.file.watch=false",
		"--shared.secretFile=" + shared, "--shared.limits.peers=" + strings.Join(peers, ","),
	}}
	for i := range w.replicas {
		w.replicas[i] = &replica{
			address: loopback(i, ports[0]), health: loopback(i, ports[2]), limits: peers[i],
			client: &http.Client{Timeout: waitTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		}
		w.start(t, i)
		t.Cleanup(w.replicas[i].client.CloseIdleConnections)
	}
	w.await(t, edges)
	return w
}

// start starts an edge, or starts it again.
func (w *world) start(t *testing.T, i int) {
	t.Helper()
	r := w.replicas[i]
	command := exec.Command(os.Getenv(binary.Variable), append(w.arguments,
		"--entryPoints.web.address="+r.address, "--health.address="+r.health, "--shared.limits.address="+r.limits)...)
	command.Env = programs.UserEnvironment()
	r.Process = programs.Run(t, fmt.Sprintf("edge %d", i), command)
	r.Process.AwaitListener(t, "tcp", r.address)
}

// await waits until each running edge hears a number of replicas.
func (w *world) await(t *testing.T, want int) {
	t.Helper()
	for _, r := range w.replicas {
		if r.Process.Alive() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		must.Do(t, r.Process.Await(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			page, err := programs.Fetch(ctx, "http://"+r.health+"/metrics")
			if err != nil {
				return err
			}
			heard, _, err := programs.Metric(page, "slipway_edge_limit_replicas_heard", "")
			if err == nil && int(heard) != want {
				err = fmt.Errorf("%v replicas are heard, want %d", heard, want)
			}
			return err
		}))
		cancel()
	}
}

// get sends one request to an edge and returns the status.
func (r *replica) get(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/", nil)
	if err != nil {
		return 0, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// refused reports whether there was no connection, so that the request was not sent.
func refused(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial"
}

// loopback is an address of an edge.
func loopback(i int, port string) string {
	return net.JoinHostPort(fmt.Sprintf("127.0.0.%d", 11+i), port)
}

// freePorts returns ports that are free on the address of the first edge. No other
// program uses these addresses.
func freePorts(t *testing.T, count int) []string {
	t.Helper()
	var ports []string
	for range count {
		listener := must.Get(net.Listen("tcp", loopback(0, "0")))(t)
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		must.Do(t, err)
		ports = append(ports, port)
	}
	return ports
}
