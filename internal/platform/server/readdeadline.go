package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Tests shorten these.
var (
	// bodyTimeout bounds reading a request of the platform's own services.
	bodyTimeout = time.Minute
	// discardTimeout bounds reading the rest of a request after its response.
	discardTimeout = 5 * time.Second
)

// boundRead bounds reading the rest of a request.
func boundRead(w http.ResponseWriter, timeout time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // the connection may be gone
}

// boundBody bounds reading the body of a request, whatever protocol its header
// claims: every procedure can be called with gRPC, also the public ones. The deadline
// ends with the body, so that watches last. It returns a copy of the request: the
// server decides by the body of its own one whether the connection is used again.
func boundBody(w http.ResponseWriter, r *http.Request) *http.Request {
	boundRead(w, bodyTimeout)
	bounded := r.WithContext(r.Context())
	bounded.Body = &boundedBody{r.Body, http.NewResponseController(w)}
	return bounded
}

// boundedBody is a body with a read deadline.
type boundedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// Read reads, and removes the deadline at the end.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.connection.SetReadDeadline(time.Time{}) // the connection may be gone
	}
	return n, err
}
