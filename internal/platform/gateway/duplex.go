package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// streams says whether a request may have more than one message in a direction.
func streams(r *http.Request) bool {
	content := r.Header.Get("Content-Type")
	return strings.HasPrefix(content, "application/connect+") || strings.HasPrefix(content, "application/grpc")
}

// duplexBody is the body of a request that is answered while it is read. The
// transport may go on reading when the answer is over, and the server would then
// read the next request at the same time: nothing is read after end.
type duplexBody struct {
	io.ReadCloser
	control *http.ResponseController
	reading sync.Mutex
	over    bool
}

// duplex lets a request of HTTP/1 be answered before it was read to its end.
func duplex(w http.ResponseWriter, r *http.Request) *duplexBody {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 has no need of it
	body := &duplexBody{ReadCloser: r.Body, control: control}
	r.Body = body
	return body
}

// Read reads unless the request is over.
func (d *duplexBody) Read(p []byte) (int, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.over {
		return 0, http.ErrBodyReadAfterClose
	}
	return d.ReadCloser.Read(p)
}

// Close leaves the body to the server.
func (d *duplexBody) Close() error { return nil }

// end waits for a reader, and wakes one that waits for the caller.
func (d *duplexBody) end() {
	if !d.reading.TryLock() {
		_ = d.control.SetReadDeadline(time.Unix(1, 0))
		d.reading.Lock()
	}
	d.over = true
	d.reading.Unlock()
}
