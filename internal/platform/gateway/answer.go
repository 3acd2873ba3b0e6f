package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/store"
)

// statusError is a refusal that HTTP has a status for and Connect has not.
type statusError struct {
	status int
	reason string
}

func (s statusError) Error() string { return s.reason }

func notFound(reason string) error { return statusError{http.StatusNotFound, reason} }

// refuse answers an error, in the words of the protocol that the caller speaks.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var plain statusError
	if errors.As(err, &plain) {
		writeProblem(w, plain.status, codeOf(plain.status), plain.reason)
		return
	}
	coded := g.coded(err)
	writer := connect.NewErrorWriter()
	if writer.IsSupported(r) {
		_ = writer.Write(w, r, coded) // the caller may be gone
		return
	}
	for name, values := range coded.Meta() {
		w.Header()[name] = values
	}
	writeProblem(w, statusOf(coded.Code()), coded.Code(), coded.Message())
}

// coded is an error as Connect has it. What callers should not see is logged.
func (g *Gateway) coded(err error) *connect.Error {
	if refusal, ok := denied(err); ok {
		return refusal.Connect()
	}
	var coded *connect.Error
	if errors.As(err, &coded) {
		return coded
	}
	g.Log.Error("a request to a runtime failed", observe.KeyError, err)
	if errors.Is(err, store.ErrUnavailable) {
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is not available: try again soon"))
	}
	return connect.NewError(connect.CodeInternal, errors.New("the platform failed; its log says why"))
}

func writeProblem(w http.ResponseWriter, status int, code connect.Code, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code.String(), "message": reason}) // the caller may be gone
}

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
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 && status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write notes that the status is the usual one.
func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController: flushing, deadlines and WebSockets.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// counts are running requests by what they are counted for.
type counts struct {
	mu    sync.Mutex
	count map[string]int
}

// enter takes a place, if there is one.
func (c *counts) enter(key string, most int) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[key] >= most {
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
