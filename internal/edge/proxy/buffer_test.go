package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/route"
)

func buffers(request, response int64) route.Policy {
	return route.Policy{Buffering: &route.Buffering{MaxRequestBytes: request, MaxResponseBytes: response}}
}

// A request that is buffered reaches the backend whole, with its length, and
// not before it is whole.
func TestBufferedRequest(t *testing.T) {
	asked := make(chan struct{}, 1)
	backend := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		edgetest.Echo(w, r)
	})
	// In a chain, as most policies are written.
	e := start(t, edgetest.Table([]netip.AddrPort{backend}, route.Policy{Chain: &route.Chain{Policies: []route.Policy{buffers(100<<10, 0)}}}))
	w := edgetest.Dial(t, e.Address)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
	if response, err := http.ReadResponse(w.Reader, nil); err != nil || response.StatusCode != 100 {
		t.Fatalf("got %v and %v, want 100", response, err)
	}
	w.Send("3\r\nhel\r\n")
	select {
	case <-asked:
		t.Error("the backend was asked before the body was there")
	default:
	}
	w.Send("2\r\nlo\r\n0\r\nX-Trail: 1\r\n\r\n")
	if _, body := w.Response("POST"); !strings.HasPrefix(body, "POST / hello\n") || !strings.Contains(body, "Length: 5\n") {
		t.Errorf("got %q", body)
	}
	<-asked
	large := strings.Repeat("0123456789abcdef", 6<<10)
	if _, body := w.Post("/large", large); !strings.HasPrefix(body, "POST /large "+large+"\n") {
		t.Errorf("got %d bytes", len(body))
	}
	<-asked
	if _, body := w.Get("/none"); !strings.HasPrefix(body, "GET /none \n") {
		t.Errorf("got %q", body)
	}
	<-asked
	e.rest()
	if held := e.Stats().BufferedBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

func TestBufferLimits(t *testing.T) {
	var asked atomic.Int32
	e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		size := 10
		if r.URL.Path == "/large" {
			size = 11
		}
		if r.URL.RawQuery == "chunked" {
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	})}, buffers(10, 10)))
	for _, request := range []string{
		"Content-Length: 11\r\n\r\n01234567890", "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n67890\r\n0\r\n\r\n",
	} {
		w := edgetest.Dial(t, e.Address)
		w.Send("POST / HTTP/1.1\r\nHost: x\r\n" + request)
		if response, _ := w.Response("POST"); response.StatusCode != 413 || !response.Close {
			t.Errorf("got %d, close %v", response.StatusCode, response.Close)
		}
		w.RequireClosed()
	}
	if asked.Load() != 0 {
		t.Error("the backend was asked")
	}
	w := edgetest.Dial(t, e.Address)
	for _, path := range []string{"/", "/?chunked", "/large", "/large?chunked", "/"} {
		response, body := w.Get(path)
		if strings.HasPrefix(path, "/large") {
			if response.StatusCode != 502 {
				t.Errorf("%s: got %d", path, response.StatusCode)
			}
		} else if body != "xxxxxxxxxx" || response.ContentLength != 10 {
			t.Errorf("%s: got %q with length %d", path, body, response.ContentLength)
		}
	}
	if _, body := w.Post("/", "0123456789"); body != "xxxxxxxxxx" {
		t.Errorf("got %q", body)
	}
	e.rest()
	if held := e.Stats().BufferedBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// A body that was read for one filter is still held to the limit of the next.
func TestHeldBodyIsLimited(t *testing.T) {
	table := authTable(t, func(http.ResponseWriter, *http.Request) {}, func(a *route.ForwardAuth) { a.MaxBodyBytes = 100 },
		route.Policy{BodyLimit: &route.BodyLimit{MaxBytes: 5}})
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	for body, status := range map[string]int{"5\r\nhello\r\n0\r\n\r\n": 200, "6\r\nhello!\r\n0\r\n\r\n": 413} {
		w.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		if response, _ := w.Response("POST"); response.StatusCode != status || response.Close {
			t.Errorf("%q: got %d, close %v", body, response.StatusCode, response.Close)
		}
	}
}

// A client gets a response that is buffered in full, or an error: never a part.
func TestBufferedResponse(t *testing.T) {
	backend := raw(t, func(conn net.Conn, read *bufio.Reader) {
		for {
			request, err := http.ReadRequest(read)
			if err != nil {
				return
			}
			switch request.URL.Path {
			case "/cut":
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
				return
			case "/cut-chunks":
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
				return
			case "/until-close":
				_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nto the end")
				return
			case "/trailers":
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")
			default:
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
			}
		}
	})
	e := start(t, edgetest.Table([]netip.AddrPort{backend}, buffers(0, 1000)))
	w := edgetest.Dial(t, e.Address) // all on one connection: each must leave it clean
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/", 200, "whole"}, {"/cut", 502, ""}, {"/cut-chunks", 502, ""}, {"/until-close", 200, "to the end"},
		{"/trailers", 200, "hello"}, {"/", 200, "whole"},
	} {
		response, body := w.Get(test.path)
		if response.StatusCode != test.status || test.body != "" && body != test.body || response.Close {
			t.Errorf("%s: got %d %q, close %v", test.path, response.StatusCode, body, response.Close)
		}
		if test.path == "/trailers" && response.Trailer.Get("X-Sum") != "1" {
			t.Errorf("trailers %v", response.Trailer)
		}
	}
}

// All bodies together have a bound. What does not fit is refused with Retry-After, and
// there is room again afterwards.
func TestBufferMemory(t *testing.T) {
	few := func(c *proxy.Config) { c.MaxBufferedBytes = 128 << 10 }
	e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	})}, buffers(1<<20, 0)), few)
	fits, not := strings.Repeat("a", 90<<10), strings.Repeat("b", 200<<10)
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(fits)))
	for range 3 {
		w := edgetest.Dial(t, e.Address)
		if response, body := w.Post("/", fits); response.StatusCode != 200 || body != want {
			t.Errorf("got %d", response.StatusCode)
		}
		if response, _ := w.Post("/", not); response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
			t.Errorf("got %d and %v", response.StatusCode, response.Header)
		}
	}
	e.rest()
	if stats := e.Stats(); stats.BufferedBytes != 0 || stats.BuffersRefused != 3 {
		t.Errorf("got %+v", stats)
	}
}
