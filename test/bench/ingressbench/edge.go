package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

const (
	// coldTimeout bounds a cold start.
	coldTimeout = 3 * time.Minute
	// lookPeriod is the interval between two polls. It bounds the resolution of
	// delays.
	lookPeriod = 500 * time.Microsecond
	// maxProfile bounds the body of one response of the admin server.
	maxProfile = 64 << 20
)

// Addresses of the edge's servers. They are fixed, because the private network
// has no other listeners; the peer listens on plainAddress after the edge has
// stopped.
const (
	plainAddress     = "127.0.0.1:80"
	encryptedAddress = "127.0.0.1:443"
	adminAddress     = "127.0.0.1:8090"
	healthAddress    = "127.0.0.1:8082"
)

// edge is the edge process under test.
type edge struct{ *ground.Child }

// startEdge starts an edge that serves the Ingresses of a cluster and returns
// before it is ready. Options and environment of the flags come last.
func startEdge(s *settings, c *ground.Cluster, dir string) (*edge, error) {
	if _, err := os.Stat(s.slipway); err != nil {
		return nil, fmt.Errorf("the program is missing: run make build-slipway, or name it with -slipway: %w", err)
	}
	command := exec.Command(s.slipway, "edge",
		"--log.format=json", "--providers.kubernetesIngress",
		"--admin.address="+adminAddress, "--health.address="+healthAddress, "--entryPoints.web.address="+plainAddress)
	if s.tls {
		command.Args = append(command.Args, "--entryPoints.websecure.address="+encryptedAddress, "--entryPoints.websecure.http.tls=true")
	}
	if s.status {
		command.Args = append(command.Args, "--providers.kubernetesIngress.ingressEndpoint.ip="+ground.HostAddress().String())
	}
	command.Args = append(command.Args, s.options...)
	command.Env = append([]string{"KUBECONFIG=" + c.Kubeconfig}, s.environment...)
	process, err := ground.StartChild("the edge", filepath.Join(dir, "edge.log"), command)
	return &edge{process}, err
}

// ready is the readiness probe of the edge; it returns nil when /readyz returns
// 200.
func (e *edge) ready(ctx context.Context) error {
	body, err := e.fetch(ctx, healthAddress, "/readyz")
	if err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	return nil
}

// fetch requests a page of the admin or health server. It uses a new connection
// each time, so none stays open in the edge between phases. With an error
// status it returns the body too.
func (e *edge) fetch(ctx context.Context, address, page string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+page, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProfile))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return body, err
}

// asker returns a client for the plain or the TLS entry point, and the method
// that sends its requests. The caller must close the client.
func (e *edge) asker(encrypted bool) (*client, func(context.Context, string) (answer, error)) {
	if encrypted {
		c := newClient(encryptedAddress)
		return c, c.askEncrypted
	}
	c := newClient(plainAddress)
	return c, c.ask
}
