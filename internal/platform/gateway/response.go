package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/store"
)

// statusError is an error with an HTTP status that has no Connect code.
type statusError struct {
	status int
	reason string
}

func (s statusError) Error() string { return s.reason }

func notFound(reason string) error { return statusError{http.StatusNotFound, reason} }

// writeError writes an error in the protocol of the client: Connect, gRPC or
// JSON.
func (g *Gateway) writeError(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if plain, ok := errors.AsType[statusError](err); ok {
		writeProblem(w, plain.status, codeOf(plain.status), plain.reason)
		return
	}
	connectError := g.connectError(err)
	writer := connect.NewErrorWriter()
	if writer.IsSupported(r) {
		_ = writer.Write(w, r, connectError) // the caller may be gone
		return
	}
	for name, values := range connectError.Meta() {
		w.Header()[name] = values
	}
	writeProblem(w, statusOf(connectError.Code()), connectError.Code(), connectError.Message())
}

// connectError converts an error to a Connect error. Internal details are
// logged and not returned.
func (g *Gateway) connectError(err error) *connect.Error {
	if refusal, ok := denied(err); ok {
		return refusal.Connect()
	}
	if connectError, ok := errors.AsType[*connect.Error](err); ok {
		return connectError
	}
	g.Log.Error("request to runtime failed", observe.KeyError, err)
	if errors.Is(err, store.ErrUnavailable) {
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is unavailable: retry later"))
	}
	return connect.NewError(connect.CodeInternal, errors.New("internal error of the platform; its log has the details"))
}

// writeProblem writes an error as Connect's JSON.
func writeProblem(w http.ResponseWriter, status int, code connect.Code, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code.String(), "message": reason}) // the caller may be gone
}

// codeOf returns the Connect code of an HTTP status.
func codeOf(status int) connect.Code {
	switch status {
	case http.StatusNotFound:
		return connect.CodeNotFound
	case http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusMethodNotAllowed:
		return connect.CodeUnimplemented
	}
	return connect.CodeInvalidArgument
}

// statusOf returns the HTTP status of a Connect code, as the Connect protocol
// maps them.
func statusOf(code connect.Code) int {
	switch code {
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the first final status; informational ones are passed
// on.
func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 && status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write records the implicit status 200.
func (s *statusRecorder) Write(p []byte) (int, error) {
	s.status = cmp.Or(s.status, http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController access to flushing, deadlines and
// hijacking.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// requestLimiter counts requests in flight by key.
type requestLimiter struct {
	mu    sync.Mutex
	count map[string]int
}

// acquire counts a request unless the limit is reached. release must be
// called when it ends.
func (c *requestLimiter) acquire(key string, limit int) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[key] >= limit {
		return nil, false
	}
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[key]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.count[key]--; c.count[key] == 0 {
			delete(c.count, key)
		}
	}, true
}
