package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/secret"
)

// Remote is how to reach an API server that no kubeconfig names.
type Remote struct {
	// Server is its URL.
	Server string
	// Authorities may vouch for it, as PEM; empty are those of the system.
	Authorities []byte
	// ServerName is what its certificate is for, where that is not its host.
	ServerName string
	// Insecure believes any certificate.
	Insecure bool
	// Certificate and Key are a client certificate, as PEM.
	Certificate []byte
	Key         secret.Text
	// Token is asked for each request, so that a new one is used at once. It is
	// nil if there is a certificate.
	Token func() secret.Text
}

// ConnectRemote makes the clients for an API server. Like Connect it sends
// nothing.
func ConnectRemote(to Remote, options ...Option) (*Cluster, error) {
	address, err := url.Parse(to.Server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("%q is no address of an API server: write https://host:port", to.Server)
	}
	if to.Token == nil && len(to.Certificate) == 0 {
		return nil, errors.New("there is neither a token nor a client certificate")
	}
	config := &rest.Config{Host: to.Server, TLSClientConfig: rest.TLSClientConfig{
		CAData: to.Authorities, ServerName: to.ServerName, Insecure: to.Insecure, CertData: to.Certificate, KeyData: []byte(to.Key.Reveal()),
	}}
	if to.Token != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tokenBearer{next: next, token: to.Token} })
	}
	cluster, err := newCluster(config, options)
	if err != nil {
		return nil, fmt.Errorf("make clients for %s: %w", to.Server, err)
	}
	cluster.Namespace = "default"
	return cluster, nil
}

// tokenBearer sends the token of the moment with each request.
type tokenBearer struct {
	next  http.RoundTripper
	token func() secret.Text
}

// RoundTrip sends a request with the token.
func (b *tokenBearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token().Reveal())
	return b.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the idle connections.
func (b *tokenBearer) WrappedRoundTripper() http.RoundTripper { return b.next }
