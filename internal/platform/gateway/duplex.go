package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// streams reports whether a request may have several messages per direction.
func streams(r *http.Request) bool {
	content := r.Header.Get("Content-Type")
	return strings.HasPrefix(content, "application/connect+") || strings.HasPrefix(content, "application/grpc")
}

// duplexBody is the request body of a bidirectional stream over HTTP/1.1. The
// transport may still read it after the response has ended, while the server
// already reads the next request from the same connection. So no read starts
// after end.
type duplexBody struct {
	io.ReadCloser
	control *http.ResponseController
	reading sync.Mutex
	over    bool
}

// duplex allows a response to an HTTP/1.1 request before its body was read
// completely.
func duplex(w http.ResponseWriter, r *http.Request) *duplexBody {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // not needed for HTTP/2
	body := &duplexBody{ReadCloser: r.Body, control: control}
	r.Body = body
	return body
}

// Read reads until end is called.
func (d *duplexBody) Read(p []byte) (int, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.over {
		return 0, http.ErrBodyReadAfterClose
	}
	return d.ReadCloser.Read(p)
}

// Close does nothing: the server owns the body.
func (d *duplexBody) Close() error { return nil }

// end forbids further reads. A read that is blocked on the client is woken by
// a deadline in the past.
func (d *duplexBody) end() {
	if !d.reading.TryLock() {
		_ = d.control.SetReadDeadline(time.Unix(1, 0))
		d.reading.Lock()
	}
	d.over = true
	d.reading.Unlock()
}
