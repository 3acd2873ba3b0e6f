package bridge

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
)

// recorder keeps what a reply makes of a response.
type recorder struct {
	header http.Header
	Status int
	Header http.Header // as it was with the final status
	Body   []byte
	hints  []int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

// recording is a recorder as an http.ResponseWriter.
type recording struct{ r *recorder }

func (w recording) Header() http.Header { return w.r.header }

func (w recording) WriteHeader(status int) {
	if status < 200 {
		w.r.hints = append(w.r.hints, status)
		return
	}
	w.r.Status, w.r.Header = status, maps.Clone(w.r.header)
}

func (w recording) Write(p []byte) (int, error) {
	w.r.Body = append(w.r.Body, p...)
	return len(p), nil
}

func (w recording) FlushError() error { return nil }

// outcome is all that a client sees of a response.
type outcome struct {
	Status   int
	Header   http.Header
	Body     string
	Trailers http.Header
	Hints    []int
	Complete bool
}

// replyTo translates a response that is written in pieces of a size.
func replyTo(r *http.Request, raw []byte, size int) outcome {
	record := newRecorder()
	w := recording{record}
	var out writer
	out.begin(w, r, http.NewResponseController(w))
	var a ResponseTranslator
	limits := h1.DefaultLimits()
	a.Begin(&out, h1.RequestInfo{Head: r.Method == http.MethodHead}, &limits)
	for part := range slices.Chunk(raw, size) {
		if _, err := a.Write(part); err != nil {
			break
		}
	}
	got := outcome{Status: record.Status, Header: record.Header, Body: string(record.Body), Hints: record.hints, Complete: a.Release()}
	for name, values := range record.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if got.Trailers == nil {
				got.Trailers = http.Header{}
			}
			got.Trailers[trailer] = values
		}
	}
	return got
}

// FuzzReply checks that a response means the same however it is cut, and that
// what counts as complete is what net/http reads, too.
func FuzzReply(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nX-Sum: 5\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello more",
	} {
		f.Add([]byte(raw), 1, false)
		f.Add([]byte(raw), 7, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, size int, head bool) {
		r := httptest.NewRequest("GET", "/", nil)
		if head {
			r.Method = "HEAD"
		}
		whole := replyTo(r, raw, max(1, len(raw)))
		pieces := replyTo(r, raw, max(1, min(size, 100)))
		if whole.Complete != pieces.Complete || whole.Complete && !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("whole: %+v\nin pieces of %d: %+v", whole, size, pieces)
		}
		if !whole.Complete {
			return
		}
		if !strings.HasPrefix(whole.Body, pieces.Body) {
			t.Fatalf("the body depends on pieces")
		}
		reader := bufio.NewReader(bytes.NewReader(raw))
		for {
			response, err := http.ReadResponse(reader, r)
			if err != nil {
				t.Fatalf("net/http does not read it: %v", err)
			}
			if response.StatusCode < 200 {
				continue
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != whole.Body || response.StatusCode != whole.Status {
				t.Fatalf("net/http reads %d %q, %v; we %d %q", response.StatusCode, body, err, whole.Status, whole.Body)
			}
			return
		}
	})
}

// A head that is larger than responses may be is refused, and its memory does
// not stay.
func TestReplyTooLarge(t *testing.T) {
	raw := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 80<<10)
	if got := replyTo(httptest.NewRequest("GET", "/", nil), []byte(raw), 1000); got.Status != 0 || got.Complete {
		t.Errorf("got %+v", got)
	}
}
