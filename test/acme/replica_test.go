package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// replica is a running edge.
type replica struct{ *edgeprocess.Replica }

// startReplica runs an edge until the end of the suite, and waits until it is
// ready.
func (w *world) startReplica(t *testing.T, address netip.Addr) *replica {
	t.Helper()
	seat := edgeprocess.Seat{Binary: w.binary, At: address, Kubeconfig: w.kubeconfig, Arguments: append([]string{
		"--entryPoints.web.http.redirections.entryPoint.to=websecure",
		"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s", "--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s",
	}, w.options...)}
	r := &replica{seat.Start(w.t)}
	r.AwaitReady(t)
	return r
}

// leads reports whether this replica is the elected one.
func (r *replica) leads(t *testing.T) bool {
	t.Helper()
	leads, err := r.Metric(t.Context(), "slipway_ingress_leader", "")
	return err == nil && leads == 1
}

// shown is the certificate that the edge shows for a host.
func (r *replica) shown(ctx context.Context, host string) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} // who vouches is looked at by the caller
	conn, err := dialer.DialContext(ctx, "tcp", r.On(edgeprocess.TLSPort))
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
		return nil, fmt.Errorf("%s shows %q for %s, issued by %q", r.At, leaf.DNSNames, host, leaf.Issuer.CommonName)
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
		DialContext:     r.Dialer(edgeprocess.TLSPort),
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return response.StatusCode, string(text), err
}
