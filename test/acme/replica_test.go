package acme

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
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

// replica is a running edge.
type replica struct {
	address netip.Addr
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its log complete

	mu     sync.Mutex
	logged bytes.Buffer
}

// startReplica runs an edge until the end of the test, and waits until it is
// ready.
func (w *world) startReplica(t *testing.T, address netip.Addr) *replica {
	t.Helper()
	r := &replica{address: address, exited: make(chan struct{})}
	r.command = exec.Command(w.binary, append([]string{
		"edge", "--log.format=json", "--providers.kubernetesIngress",
		"--admin.address=" + r.at(adminPort), "--health.address=" + r.at(healthPort),
		"--entryPoints.web.address=" + r.at(plainPort), "--entryPoints.web.http.redirections.entryPoint.to=websecure",
		"--entryPoints.websecure.address=" + r.at(tlsPort), "--entryPoints.websecure.http.tls=true",
		"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s", "--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s",
	}, w.options...)...)
	r.command.Env = []string{"PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + w.kubeconfig}
	edgeprocess.Tie(r.command)
	stderr, err := r.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go r.readLog(stderr)
	w.cleanup(func() {
		r.kill()
		if w.failed() {
			t.Logf("the log of the edge at %s:\n%s", address, r.log())
		}
	})
	eventually(t, func() error {
		status, text, err := r.page(t.Context(), "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, text)
		}
		return err
	})
	return r
}

func (r *replica) at(port uint16) string { return netip.AddrPortFrom(r.address, port).String() }

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

func (r *replica) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logged.String()
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

// page is a page of the health server.
func (r *replica) page(ctx context.Context, path string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.at(healthPort)+path, nil)
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

// leads reports whether this replica is the elected one.
func (r *replica) leads(t *testing.T) bool {
	t.Helper()
	_, text, err := r.page(t.Context(), "/metrics")
	return err == nil && strings.Contains(text, "slipway_ingress_leader 1")
}

// shown is the certificate that the edge shows for a host.
func (r *replica) shown(ctx context.Context, host string) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} // who vouches is looked at by the caller
	conn, err := dialer.DialContext(ctx, "tcp", r.at(tlsPort))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// fetched is the certificate of an authority that the edge shows for a host.
func (r *replica) fetched(ctx context.Context, host string) (*x509.Certificate, error) {
	leaf, err := r.shown(ctx, host)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(leaf.Issuer.CommonName, "Pebble Intermediate CA") || leaf.VerifyHostname(host) != nil {
		return nil, fmt.Errorf("%s shows %q for %s, issued by %q", r.address, leaf.DNSNames, host, leaf.Issuer.CommonName)
	}
	return leaf, nil
}

// get asks the edge over TLS.
func (r *replica) get(ctx context.Context, host string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it may be the default certificate
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.at(tlsPort))
		},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return response.StatusCode, string(text), err
}
