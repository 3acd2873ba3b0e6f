package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/outbound"
)

const (
	// maxResponse bounds the response of a provider.
	maxResponse = 4 << 20
	// maxTimeout bounds the time of a request: workers wait for it.
	maxTimeout = 2 * time.Minute
)

// clients sends the requests of metrics. Users name the addresses, so that the policy
// for outgoing connections applies to each, redirects and token servers included.
type clients struct{ transports *outbound.Transports }

// newClients returns clients without connections.
func newClients(policy *outbound.Policy) *clients {
	return &clients{outbound.NewTransports(policy, 10*time.Second)}
}

// close closes idle connections.
func (c *clients) close() { c.transports.Close() }

// of returns a client that authenticates as a metric describes it.
func (c *clients) of(ctx context.Context, insecure bool, authentication v1alpha1.Authentication) (*http.Client, error) {
	client := &http.Client{Transport: c.transports.For(insecure)}
	if authentication.Sigv4 != (v1alpha1.Sigv4Config{}) {
		return nil, errors.New("authentication.sigv4 is not supported: use a proxy that signs requests for AWS")
	}
	if authentication.OAuth2.TokenURL == "" {
		return client, nil
	}
	given := authentication.OAuth2
	if given.ClientID == "" || given.ClientSecret == "" {
		return nil, errors.New("missing mandatory parameter in metric for OAuth2 setup")
	}
	config := clientcredentials.Config{ClientID: given.ClientID, ClientSecret: given.ClientSecret, TokenURL: given.TokenURL, Scopes: given.Scopes}
	return config.Client(context.WithValue(ctx, oauth2.HTTPClient, client)), nil
}

// fetch sends a request and returns the status and the body, which is bounded.
func fetch(client *http.Client, request *http.Request) (int, []byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("Received no bytes in response: %w", err)
	case len(body) > maxResponse:
		return 0, nil, fmt.Errorf("the response has more than %d MiB", maxResponse>>20)
	}
	return response.StatusCode, body, nil
}

// setHeaders sets the headers of a metric.
func setHeaders(request *http.Request, headers []v1alpha1.WebMetricHeader) {
	for _, header := range headers {
		request.Header.Set(header.Key, header.Value)
	}
}

// timeout returns the time of a request in seconds, or what it is without one.
func timeout(seconds int64, otherwise time.Duration) time.Duration {
	if seconds <= 0 {
		return otherwise
	}
	return min(time.Duration(min(seconds, int64(maxTimeout/time.Second)))*time.Second, maxTimeout)
}
