package ingress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// The ports of every replica, on an address of its own.
const (
	plainPort  = 8080
	tlsPort    = 8443
	healthPort = 8082
	adminPort  = 8090
)

// seat is where an edge runs and how it is started. It can be taken by one
// process after the other.
type seat struct {
	binary  string
	address netip.Addr
	// kubeconfig is how it reaches the cluster, and namespace where it is at home.
	kubeconfig, namespace string
	arguments             []string
}

// replica is a running edge.
type replica struct {
	seat
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its log complete

	mu     sync.Mutex
	logged bytes.Buffer
}

// start runs an edge until the end of the test. It may be far from ready.
func (s seat) start(t *testing.T) *replica {
	t.Helper()
	at := func(port int) string { return netip.AddrPortFrom(s.address, uint16(port)).String() }
	r := &replica{seat: s, exited: make(chan struct{})}
	r.command = exec.Command(s.binary, append([]string{
		"edge", "--log.format=json", "--providers.kubernetesIngress",
		"--admin.address=" + at(adminPort), "--health.address=" + at(healthPort),
		"--entryPoints.web.address=" + at(plainPort),
		"--entryPoints.websecure.address=" + at(tlsPort), "--entryPoints.websecure.http.tls=true",
	}, s.arguments...)...)
	r.command.Env = []string{"PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + s.kubeconfig, "POD_NAMESPACE=" + s.namespace}
	edgeprocess.Tie(r.command)
	stderr, err := r.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go r.readLog(stderr)
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("the log of the edge at %s:\n%s", s.address, r.log())
		}
	})
	return r
}

func (r *replica) readLog(stderr io.Reader) {
	defer close(r.exited)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.mu.Lock()
		fmt.Fprintf(&r.logged, "%s\n", lines.Bytes())
		r.mu.Unlock()
	}
	_ = r.command.Wait() // how it ended shows in the log
}

// log is what the edge has logged so far.
func (r *replica) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logged.String()
}

// says reports whether a line of the log has all of these words.
func (r *replica) says(words ...string) bool {
	for line := range strings.Lines(r.log()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

// kill ends the process with SIGKILL. It may be called more than once.
func (r *replica) kill() {
	_ = r.command.Process.Kill() // it fails when the process is gone
	<-r.exited
}

// stop ends the process as a cluster does, and waits until it has.
func (r *replica) stop(t *testing.T) {
	t.Helper()
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.exited:
	case <-time.After(patience):
		t.Fatalf("the edge does not stop: %s", r.log())
	}
	if state := r.command.ProcessState; !state.Success() {
		t.Errorf("the edge ended with %v", state)
	}
}

// signal sends any other signal.
func (r *replica) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := r.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// ready is nil when the edge says that it is, and else what it says.
func (r *replica) ready(ctx context.Context) error {
	status, text, err := r.page(ctx, "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d: %s", status, text)
	}
	return err
}

// awaitReady waits until the edge is ready.
func (r *replica) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, patience, func() error { return r.ready(t.Context()) })
}

// page is a page of the health server.
func (r *replica) page(ctx context.Context, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", r.address, healthPort, path), nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	return response.StatusCode, strings.TrimSpace(string(body)), err
}

// metric is the sum of all series of a metric whose labels contain a text.
func (r *replica) metric(ctx context.Context, name, labels string) (float64, error) {
	_, text, err := r.page(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if rest[0] == ' ' {
			series, value = "", strings.TrimSpace(rest)
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		if strings.Contains(series, labels) {
			sum, found = sum+number, true
		}
	}
	if !found && labels == "" {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return sum, nil
}

// memory is the resident set of the process, in bytes.
func (r *replica) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("the kernel does not say how much memory the edge has")
	return 0
}

// dialer connects to one port of the replica, whatever host a client wants.
func (s seat) dialer(port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(s.address, uint16(port)).String())
	}
}

// errGone is what becomes of who asks an edge that has ended.
var errGone = errors.New("the edge has ended")

// alive is nil while the process runs.
func (r *replica) alive() error {
	select {
	case <-r.exited:
		return fmt.Errorf("%w: %s", errGone, r.log())
	default:
		return nil
	}
}
