package proxy_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

var compressing = route.Policy{Compression: &route.Compression{}}

// unpack reads a body in an encoding.
func unpack(t testing.TB, encoding, body string) string {
	t.Helper()
	var reader io.Reader = strings.NewReader(body)
	switch encoding {
	case "gzip":
		unzipped, err := gzip.NewReader(reader)
		must.Do(t, err)
		reader = unzipped
	case "br":
		reader = brotli.NewReader(reader)
	case "zstd":
		decoder, err := zstd.NewReader(reader, zstd.WithDecoderConcurrency(1))
		must.Do(t, err)
		defer decoder.Close()
		reader = decoder
	}
	text, err := io.ReadAll(reader)
	must.Do(t, err)
	return string(text)
}

func TestCompressed(t *testing.T) {
	text := strings.Repeat("all work and no play makes a long text\n", 5000)
	backend := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("ETag", `"1"`)
		if r.URL.Path != "/chunked" {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		_, _ = io.WriteString(w, text)
	})
	for name, policies := range map[string][]route.Policy{
		"alone": {compressing}, "buffered": {buffers(0, 1<<20), {Chain: &route.Chain{Policies: []route.Policy{compressing}}}},
	} {
		t.Run(name, func(t *testing.T) {
			records := make(chan proxy.Record, 100)
			e := start(t, edgetest.Table([]netip.AddrPort{backend}, policies...), func(c *proxy.Config) { c.Observe = func(r *proxy.Record) { records <- *r } })
			w := edgetest.Dial(t, e.Address)
			for _, path := range []string{"/", "/chunked"} {
				for _, encoding := range []string{"gzip", "br", "zstd"} {
					response, body := w.Get(path, "Accept-Encoding: "+encoding)
					if got := response.Header.Get("Content-Encoding"); got != encoding || response.ContentLength != -1 || response.Close || response.Header.Get("ETag") != `W/"1"` {
						t.Fatalf("%s: got %q, length %d and %v", path, got, response.ContentLength, response.Header)
					}
					if got := unpack(t, encoding, body); got != text || len(body) > len(text)/10 {
						t.Errorf("%s %s: %d bytes became %d in %d", path, encoding, len(text), len(got), len(body))
					}
					if r := <-records; r.Sent != int64(len(body)) || r.Origin != int64(len(text)) {
						t.Errorf("recorded %d and %d", r.Sent, r.Origin)
					}
				}
				response, body := w.Get(path)
				if response.Header.Get("Content-Encoding") != "" || body != text || response.Header.Get("Vary") != "Accept-Encoding" {
					t.Errorf("%s, as it is: %v", path, response.Header)
				}
				<-records
			}
			w.Send("GET / HTTP/1.0\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
			response, body := w.Response("GET")
			if !response.Close || unpack(t, response.Header.Get("Content-Encoding"), body) != text {
				t.Errorf("HTTP/1.0: %v", response.Header)
			}
		})
	}
}

// What the backend sends can be read at once, also when it is encoded.
func TestCompressedEvents(t *testing.T) {
	next := make(chan struct{})
	e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range 3 {
			<-next
			fmt.Fprintf(w, "data: %d\n", i)
			w.(http.Flusher).Flush()
		}
	})}, compressing))
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		w := edgetest.Dial(t, e.Address)
		w.Send("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: " + encoding + "\r\n\r\n")
		response, err := http.ReadResponse(w.Reader, nil) // before there is any event
		if err != nil || response.Header.Get("Content-Encoding") != encoding {
			t.Fatalf("got %v and %v", response, err)
		}
		var lines *bufio.Reader
		for i := range 3 {
			next <- struct{}{}
			if lines == nil {
				lines = bufio.NewReader(decoder(t, encoding, response.Body))
			}
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%s: got %q and %v", encoding, line, err)
			}
		}
		if _, err := lines.ReadByte(); err != io.EOF {
			t.Errorf("%s: at the end: %v", encoding, err)
		}
	}
}

func decoder(t testing.TB, encoding string, body io.Reader) io.Reader {
	t.Helper()
	switch encoding {
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		must.Do(t, err)
		return unzipped
	case "br":
		return brotli.NewReader(body)
	}
	unpacked, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
	must.Do(t, err)
	t.Cleanup(unpacked.Close)
	return unpacked
}

// The client sees when a response breaks off.
func TestCompressedCut(t *testing.T) {
	e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})}, compressing))
	w := edgetest.Dial(t, e.Address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
	response, err := http.ReadResponse(w.Reader, nil)
	must.Do(t, err)
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v, want a body that is cut", err)
	}
}
