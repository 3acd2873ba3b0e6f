package edgeprocess

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// The ports of every replica, on an address of its own.
const (
	PlainPort  = 8080
	TLSPort    = 8443
	HealthPort = 8082
	AdminPort  = 8090
)

// Seat is where an edge of a cluster runs and how it is started. It can be
// taken by one process after the other.
type Seat struct {
	// Binary is the path of the built slipway, and At the address of all ports.
	Binary string
	At     netip.Addr
	// Kubeconfig has the connection to the cluster, and Namespace is that of
	// the edge; it may be empty.
	Kubeconfig, Namespace string
	// Arguments are additional options of `slipway edge`, after the defaults.
	Arguments []string
}

// Replica is a running edge of a cluster.
type Replica struct {
	Seat
	*programs.Process
}

// Start runs an edge until the end of the test. It does not wait for readiness.
func (s Seat) Start(t *testing.T) *Replica {
	t.Helper()
	command := exec.Command(s.Binary, append([]string{
		"edge", "--log.format=json", "--providers.kubernetesIngress",
		"--admin.address=" + s.On(AdminPort), "--health.address=" + s.On(HealthPort),
		"--entryPoints.web.address=" + s.On(PlainPort),
		"--entryPoints.websecure.address=" + s.On(TLSPort), "--entryPoints.websecure.http.tls=true",
	}, s.Arguments...)...)
	command.Env = programs.Environment(t, "KUBECONFIG="+s.Kubeconfig)
	if s.Namespace != "" {
		command.Env = append(command.Env, "POD_NAMESPACE="+s.Namespace)
	}
	return &Replica{s, programs.Run(t, "the edge at "+s.At.String(), command)}
}

// On returns the address of a port.
func (s Seat) On(port int) string { return net.JoinHostPort(s.At.String(), strconv.Itoa(port)) }

// Dialer connects to one port, whatever host a client requests.
func (s Seat) Dialer(port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.On(port))
	}
}

// Page returns a page of the health server.
func (s Seat) Page(ctx context.Context, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, programs.Timeout)
	defer cancel()
	status, text, err = programs.Get(ctx, "http://"+s.On(HealthPort)+path)
	return status, strings.TrimSpace(text), err
}

// Metric returns the sum of all series of a metric whose labels contain a text.
// A metric that does not exist is an error, unless it is one with labels.
func (s Seat) Metric(ctx context.Context, name, labels string) (float64, error) {
	_, text, err := s.Page(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum, found, err := programs.Metric(text, name, labels)
	if err == nil && !found && labels == "" {
		err = fmt.Errorf("there is no metric %s", name)
	}
	return sum, err
}

// Ready returns nil if the edge is ready, and else the reason that it gives.
func (s Seat) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, programs.Timeout)
	defer cancel()
	_, err := programs.Fetch(ctx, "http://"+s.On(HealthPort)+"/readyz")
	return err
}

// AwaitReady waits until the edge is ready.
func (r *Replica) AwaitReady(t *testing.T) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		must.Do(t, r.Alive())
		return r.Ready(ctx)
	})
}
