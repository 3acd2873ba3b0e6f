package kube

import (
	"context"
	"net/http"
)

// fenceKey is the key of a fence in a context.
type fenceKey struct{}

// WithFence returns a context whose requests write only while the fence returns nil.
// Every client of a Cluster checks it right before it sends a write. A context that is
// cancelled is no replacement: after a pause of the process a goroutine may send before the
// timer of the deadline fires.
func WithFence(ctx context.Context, fence func() error) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// fenceTransport refuses writes whose fence is closed.
type fenceTransport struct{ next http.RoundTripper }

// fenced is for the Wrap of a rest.Config.
func fenced(next http.RoundTripper) http.RoundTripper { return &fenceTransport{next} }

// RoundTrip sends a request, unless it writes and its fence is closed.
func (t *fenceTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if fence, ok := request.Context().Value(fenceKey{}).(func() error); ok && request.Method != http.MethodGet {
		if err := fence(); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go close idle connections.
func (t *fenceTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
