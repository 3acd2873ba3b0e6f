package hub

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/wire"
)

// prefixes are the paths that pass.
func prefixes() [3]string {
	return [...]string{wire.AppProxyPath, wire.WebhooksPath, wire.WorkflowsPath}
}

// checkPath refuses what a router does not serve. A path that means another one
// after it is cleaned is refused, so that nothing passes by its spelling.
func checkPath(path string) error {
	allowed := false
	for _, prefix := range prefixes() {
		allowed = allowed || strings.HasPrefix(path, prefix)
	}
	if !allowed {
		return &RefusedError{Reason: "only paths below /app-proxy/, /webhooks/ and /workflows/ do"}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return &RefusedError{Reason: "the path has a backslash or a control character"}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return &RefusedError{Reason: "the path has a segment . or .."}
		}
	}
	return nil
}

// checkRequest refuses a request before anything of it is sent.
func (h *Hub) checkRequest(r *http.Request) error {
	if r.URL.Opaque != "" {
		return &RefusedError{Reason: "the URL has no path"}
	}
	if err := checkPath(r.URL.Path); err != nil {
		return err
	}
	if r.Method == http.MethodConnect {
		return &RefusedError{Reason: "the method CONNECT does not"}
	}
	size := int64(len(r.Method) + len(r.Host) + len(r.URL.RequestURI()))
	for name, values := range r.Header {
		for _, value := range values {
			size += int64(len(name) + len(value) + len(": \r\n"))
		}
	}
	if size > h.options.Limits.HeaderBytes {
		return &RefusedError{Reason: "the header is too large"}
	}
	if r.ContentLength > h.options.Limits.BodyBytes {
		return &http.MaxBytesError{Limit: h.options.Limits.BodyBytes}
	}
	return nil
}

// requestBody is the body of a request that may be tried twice. It knows whether
// anything of it was read, bounds it, and closes what it reads from once.
type requestBody struct {
	source io.ReadCloser
	left   int64
	limit  int64

	mu      sync.Mutex
	current *attemptBody
	touched bool
	closed  bool
}

// newRequestBody takes the body of a request; nil when there is none.
func newRequestBody(r *http.Request, limit int64) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &requestBody{source: r.Body, left: limit, limit: limit}
}

// attempt gives the body to one try. The try before has lost it.
func (b *requestBody) attempt() io.ReadCloser {
	if b == nil {
		return http.NoBody
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &attemptBody{body: b}
	return b.current
}

// settle says how a try ended. One that failed loses the body, and settle reports
// whether another may have it.
func (b *requestBody) settle(ok bool) (untouched bool) {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		b.current = nil
		return !b.touched
	}
	if b.current.released {
		b.closeLocked()
	}
	b.current.settled = true
	return !b.touched
}

// close closes what the body reads from.
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

// attemptBody is the body as one try sees it.
type attemptBody struct {
	body     *requestBody
	settled  bool // body.mu guards it and the next
	released bool
}

// Read reads for the try that has the body.
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

// Close lets go of the body. It is closed when the try has not failed: another one
// may need it.
func (a *attemptBody) Close() error {
	b := a.body
	b.mu.Lock()
	defer b.mu.Unlock()
	a.released = true
	if b.current == a && a.settled {
		b.closeLocked()
	}
	return nil
}

// answerBody is the body of an answer. It tells when the request has ended.
type answerBody struct {
	io.ReadCloser
	once sync.Once
	done func()
}

// Read reads; the end of the answer is the end of the request.
func (a *answerBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.once.Do(a.done)
	}
	return n, err
}

// Close ends the request.
func (a *answerBody) Close() error {
	err := a.ReadCloser.Close()
	a.once.Do(a.done)
	return err
}

// switchedBody is the body of an answer that switched protocols: it can be written
// to as well, and ends when it is closed.
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

// finishWith calls done when the answer has been read or dropped.
func finishWith(response *http.Response, done func()) {
	if both, ok := response.Body.(io.ReadWriteCloser); ok && response.StatusCode == http.StatusSwitchingProtocols {
		response.Body = &switchedBody{ReadWriteCloser: both, done: done}
		return
	}
	response.Body = &answerBody{ReadCloser: response.Body, done: done}
}
