package bridge

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
)

// BenchmarkExchange is what the bridge adds to a request without a body: the
// libraries' own work is not in it.
func BenchmarkExchange(b *testing.B) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Sun, 15 Nov 2026 06:00:00 GMT\r\nContent-Length: 5\r\n\r\nhello")
	buf := make([]byte, 4096)
	h := &Handler{Pool: new(h1.BufferPool), Serve: func(_ Stream, conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(buf); err != nil {
			b.Error(err)
		}
		if _, err := conn.Write(answer); err != nil {
			b.Error(err)
		}
	}}
	r := httptest.NewRequest("GET", "/some/path?x=1", nil)
	r.ProtoMajor = 3
	r.Header = http.Header{
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"}, "Accept": {"*/*"}, "Accept-Language": {"en"},
		"Accept-Encoding": {"gzip, br"}, "Cookie": {"session=0123456789abcdef; theme=dark"},
	}
	record := newRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(record.header)
		record.Body = record.Body[:0]
		h.ServeHTTP(recording{record}, r)
	}
}
