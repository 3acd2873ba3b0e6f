package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/secret"
)

// Remote is an API server that is not in a kubeconfig.
type Remote struct {
	// Server is its URL.
	Server string
	// Authorities are its certificate authorities, as PEM; empty means those of
	// the system.
	Authorities []byte
	// ServerName is the name in its certificate, if that is not its host.
	ServerName string
	// Insecure accepts any certificate.
	Insecure bool
	// Certificate and Key are a client certificate, as PEM.
	Certificate []byte
	Key         secret.Text
	// Token is called for each request, so that a renewed token is used at once.
	// It is nil with a certificate.
	Token func() secret.Text
}

// ConnectRemote returns the clients for an API server. Like Connect it sends
// nothing.
func ConnectRemote(to Remote, options ...Option) (*Cluster, error) {
	address, err := url.Parse(to.Server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("%q is not the address of an API server: write https://host:port", to.Server)
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

// tokenBearer adds the current token to each request.
type tokenBearer struct {
	next  http.RoundTripper
	token func() secret.Text
}

// RoundTrip sends a copy of the request with the token: a RoundTripper must not
// modify the original.
func (b *tokenBearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token().Reveal())
	return b.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go close idle connections.
func (b *tokenBearer) WrappedRoundTripper() http.RoundTripper { return b.next }
