package main

import (
	"context"
	"path/filepath"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// coldTimeout bounds a cold start.
	coldTimeout = 3 * time.Minute
	// lookPeriod is the interval between two polls. It bounds the resolution of
	// delays.
	lookPeriod = 500 * time.Microsecond
)

// Addresses of the edge's servers. They are fixed, because the private network
// has no other listeners; the peer listens on plainAddress after the edge has
// stopped.
const (
	plainAddress     = "127.0.0.1:80"
	spareAddress     = "127.0.0.1:8081" // of the entry point, where a Gateway has port 80
	encryptedAddress = "127.0.0.1:443"
	adminAddress     = "127.0.0.1:8090"
	healthAddress    = "127.0.0.1:8082"
)

// edge is the edge process under test.
type edge struct{ *programs.Process }

// startEdge starts an edge that serves the Ingresses of a cluster and returns
// before it is ready. Options and environment of the flags come last.
func startEdge(s *settings, c *ground.Cluster, dir string) (*edge, error) {
	point, words := plainAddress, []string{"edge",
		"--log.format=json", "--providers.kubernetesIngress",
		"--admin.address=" + adminAddress, "--health.address=" + healthAddress}
	if s.gateway {
		point = spareAddress
		words = append(words, "--providers.kubernetesGateway.addresses=127.0.0.1,127.1.0.0/16", "--providers.kubernetesGateway.addressesPerNamespace=0")
	}
	if s.nginx {
		words = append(words, "--providers.kubernetesIngressNGINX=true")
	}
	words = append(words, "--entryPoints.web.address="+point)
	if s.tls {
		words = append(words, "--entryPoints.websecure.address="+encryptedAddress, "--entryPoints.websecure.http.tls=true")
	}
	if s.status {
		words = append(words, "--providers.kubernetesIngress.ingressEndpoint.ip="+privatenet.HostAddress().String())
	}
	process, err := c.StartSlipway(s.Slipway, filepath.Join(dir, "edge.log"), s.Environment, append(words, s.Options...))
	return &edge{process}, err
}

// ready is the readiness probe of the edge; it returns nil when /readyz returns
// 200.
func (e *edge) ready(ctx context.Context) error {
	_, err := programs.Fetch(ctx, "http://"+healthAddress+"/readyz")
	return err
}

// querier returns a client for the plain or the TLS entry point, and the method
// that sends its requests. The caller must close the client.
func (e *edge) querier(encrypted bool) (*client, func(context.Context, string) (response, error)) {
	if encrypted {
		c := newClient(encryptedAddress)
		return c, c.requestEncrypted
	}
	c := newClient(plainAddress)
	return c, c.do
}
