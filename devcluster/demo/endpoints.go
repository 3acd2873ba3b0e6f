package demo

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// Bounds of the query parameters: a typing error must not keep a server
	// busy for days.
	maxBytes  = 16 << 30
	maxEvents = 100_000
	maxSleep  = time.Minute

	// statusClientGone is only logged: the client has closed the connection.
	// The number is the one that nginx uses.
	statusClientGone = 499

	// writeTimeout bounds each write of a response that has many.
	writeTimeout = 30 * time.Second
)

// healthz serves liveness probes: it succeeds as long as the process accepts
// connections, also while it drains.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
}

// readyz serves readiness probes. A draining server is never ready, regardless
// of POST /ready.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.stopping.Load():
		http.Error(w, "not ready: stopping", http.StatusServiceUnavailable)
	case !s.ready.Load():
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ready")
	}
}

// setReady handles POST /ready.
func (s *server) setReady(w http.ResponseWriter, r *http.Request) {
	s.switchReadiness(w, r, true)
}

// setUnready handles POST /unready: the readiness probe fails, and the Pod
// leaves its Services without a restart.
func (s *server) setUnready(w http.ResponseWriter, r *http.Request) {
	s.switchReadiness(w, r, false)
}

// switchReadiness accepts POST only, so that a crawler or a prefetching browser
// cannot change the state.
func (s *server) switchReadiness(w http.ResponseWriter, r *http.Request, ready bool) {
	if !allow(w, r, http.MethodPost) {
		return
	}
	s.ready.Store(ready)
	fmt.Fprintf(w, "ready=%t\n", ready)
}

// crash handles POST /exit?code=N: it responds and then ends the process. The
// main loop exits, after a moment for the response to be sent.
func (s *server) crash(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodPost) {
		return
	}
	code, err := number(r.URL.Query(), "code", int64(s.exitCode), 255)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "exiting with code %d\n", code)
	select {
	case s.exit <- int(code):
	default: // another request was first
	}
}

// bytes handles GET /bytes?n=1000: it sends a body of n bytes, for tests of
// throughput and of large responses.
func (s *server) bytes(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	n, err := number(r.URL.Query(), "n", 1024, maxBytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	if r.Method == http.MethodHead {
		return
	}
	// A pattern of 64 bytes, so that a client can detect where a part of the
	// body is missing.
	const pattern = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-\n"
	chunk := make([]byte, 32<<10)
	for i := range chunk {
		chunk[i] = pattern[i%len(pattern)]
	}
	control := longResponse(w)
	for n > 0 {
		if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return
		}
		written, err := w.Write(chunk[:min(n, int64(len(chunk)))])
		if err != nil {
			return
		}
		n -= int64(written)
	}
}

// stream handles GET /stream?n=10&every=1s: it sends server-sent events and
// flushes each one, so that a proxy that buffers responses is noticed.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet) {
		return
	}
	n, err := number(r.URL.Query(), "n", 10, maxEvents)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	every, err := duration(r.URL.Query(), "every", time.Second)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := longResponse(w)
	for i := int64(1); i <= n; i++ {
		if i > 1 && !wait(r, every) {
			return
		}
		if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s %s\n\n", i, s.self.name, s.self.version); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		// Clear the deadline: the pause may be longer than it, and the next
		// write sets its own.
		if control.SetWriteDeadline(time.Time{}) != nil {
			return
		}
	}
}

// sleep handles /sleep?for=2s: it delays the response, for tests of timeouts. A
// client that disconnects ends the wait.
func (s *server) sleep(w http.ResponseWriter, r *http.Request) {
	d, err := duration(r.URL.Query(), "for", time.Second)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !wait(r, d) {
		w.WriteHeader(statusClientGone)
		return
	}
	fmt.Fprintf(w, "slept for %s\n", d)
}

// longResponse prepares a response that may take longer than requestTimeout. It
// lifts the read deadline: net/http cancels a request whose connection passes
// it, even while the response is being written. Each write sets a deadline of
// its own instead.
func longResponse(w http.ResponseWriter) *http.ResponseController {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	return control
}

// wait pauses for d; it reports false when the request ended first.
func wait(r *http.Request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

// allow reports whether the method is allowed; otherwise it has responded with
// 405 and the Allow header that RFC 9110 requires.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	for _, m := range methods {
		w.Header().Add("Allow", m)
	}
	http.Error(w, fmt.Sprintf("%s is not possible here; use %s", r.Method, methods[0]), http.StatusMethodNotAllowed)
	return false
}

// number parses a query parameter from 0 to most; absent is its default.
func number(query url.Values, key string, absent, most int64) (int64, error) {
	text := query.Get(key)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s=%q: want a number from 0 to %d", key, text, most)
	}
	return n, nil
}

// duration parses a query parameter from 0 to maxSleep; absent is its default.
// The bound keeps a handler below requestTimeout.
func duration(query url.Values, key string, absent time.Duration) (time.Duration, error) {
	text := query.Get(key)
	if text == "" {
		return absent, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxSleep {
		return 0, fmt.Errorf("%s=%q: want a duration from 0s to %s, such as 500ms", key, text, maxSleep)
	}
	return d, nil
}
