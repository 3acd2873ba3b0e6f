package hub

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/wire"
)

// prefixes returns the path prefixes that may pass.
func prefixes() [3]string {
	return [...]string{wire.AppProxyPath, wire.WebhooksPath, wire.WorkflowsPath}
}

// checkPath rejects paths that the router does not serve. Paths that a server
// could normalize to another one (dot segments, backslashes, control
// characters) are rejected too, so that no spelling evades the prefix check.
func checkPath(path string) error {
	allowed := false
	for _, prefix := range prefixes() {
		allowed = allowed || strings.HasPrefix(path, prefix)
	}
	if !allowed {
		return notAllowed("only paths below /app-proxy/, /webhooks/ and /workflows/ are allowed")
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return notAllowed("the path contains a backslash or a control character")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return notAllowed("the path contains a segment . or ..")
		}
	}
	return nil
}

// checkRequest validates a request before any byte of it is sent.
func (h *Hub) checkRequest(r *http.Request) error {
	if r.URL.Opaque != "" {
		return notAllowed("the URL has no path")
	}
	if err := checkPath(r.URL.Path); err != nil {
		return err
	}
	if r.Method == http.MethodConnect {
		return notAllowed("the method CONNECT is not allowed")
	}
	size := int64(len(r.Method) + len(r.Host) + len(r.URL.RequestURI()))
	for name, values := range r.Header {
		for _, value := range values {
			size += int64(len(name) + len(value) + len(": \r\n"))
		}
	}
	if size > h.options.Limits.HeaderBytes {
		return notAllowed("the header is too large")
	}
	if r.ContentLength > h.options.Limits.BodyBytes {
		return &http.MaxBytesError{Limit: h.options.Limits.BodyBytes}
	}
	return nil
}

// requestBody is the body of a request that may be attempted twice. It
// records whether any byte was read, enforces the size limit, and closes its
// source once.
type requestBody struct {
	source io.ReadCloser
	left   int64
	limit  int64

	mu      sync.Mutex
	current *attemptBody
	touched bool
	closed  bool
}

// newRequestBody wraps the body of a request; it returns nil when there is
// none. All methods accept a nil receiver.
func newRequestBody(r *http.Request, limit int64) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &requestBody{source: r.Body, left: limit, limit: limit}
}

// attempt returns the body for one attempt and detaches it from the previous
// one, whose transport may still hold a reference.
func (b *requestBody) attempt() io.ReadCloser {
	if b == nil {
		return http.NoBody
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &attemptBody{body: b}
	return b.current
}

// finishAttempt records the result of an attempt. A failed attempt is
// detached, and untouched reports whether the body can be sent again.
func (b *requestBody) finishAttempt(ok bool) (untouched bool) {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		b.current = nil
		return !b.touched
	}
	// The transport may close the body before RoundTrip returns.
	if b.current.released {
		b.closeLocked()
	}
	b.current.finished = true
	return !b.touched
}

// close closes the source.
func (b *requestBody) close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeLocked()
}

func (b *requestBody) closeLocked() {
	if !b.closed {
		b.closed = true
		_ = b.source.Close()
	}
}

// attemptBody is the body as one attempt sees it.
type attemptBody struct {
	body     *requestBody
	finished bool // body.mu guards both
	released bool
}

// Read reads from the source while this attempt is the current one. It reads
// one byte beyond the limit to detect a body that is too large.
func (a *attemptBody) Read(p []byte) (int, error) {
	b := a.body
	b.mu.Lock()
	mine := b.current == a && !b.closed
	b.touched = b.touched || mine
	b.mu.Unlock()
	if !mine {
		return 0, http.ErrBodyReadAfterClose
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.source.Read(p)
	if int64(n) > b.left {
		return int(b.left), &http.MaxBytesError{Limit: b.limit}
	}
	b.left -= int64(n)
	return n, err
}

// Close releases the body. The source is closed only after a successful
// attempt: after a failed one the next attempt needs it.
func (a *attemptBody) Close() error {
	b := a.body
	b.mu.Lock()
	defer b.mu.Unlock()
	a.released = true
	if b.current == a && a.finished {
		b.closeLocked()
	}
	return nil
}

// responseBody is the body of a response. It calls done once, when the
// response has been read or closed.
type responseBody struct {
	io.ReadCloser
	once sync.Once
	done func()
}

// Read reads; an error or EOF ends the request.
func (a *responseBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.once.Do(a.done)
	}
	return n, err
}

// Close ends the request.
func (a *responseBody) Close() error {
	err := a.ReadCloser.Close()
	a.once.Do(a.done)
	return err
}

// switchedBody is the body of a 101 response. It is writable as well, and the
// request ends when it is closed.
type switchedBody struct {
	io.ReadWriteCloser
	once sync.Once
	done func()
}

// Close ends the request.
func (s *switchedBody) Close() error {
	err := s.ReadWriteCloser.Close()
	s.once.Do(s.done)
	return err
}

// finishWith arranges that done is called when the response has been read or
// closed.
func finishWith(response *http.Response, done func()) {
	if both, ok := response.Body.(io.ReadWriteCloser); ok && response.StatusCode == http.StatusSwitchingProtocols {
		response.Body = &switchedBody{ReadWriteCloser: both, done: done}
		return
	}
	response.Body = &responseBody{ReadCloser: response.Body, done: done}
}
