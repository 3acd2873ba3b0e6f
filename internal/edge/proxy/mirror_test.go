package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func mirroring(percent int, body int64) route.Policy {
	return route.Policy{Mirror: &route.Mirror{Backend: edgetest.BackendID("copy"), Percent: percent, MaxBodyBytes: body}}
}

// copies is a backend that reports what it got.
func copies(t testing.TB) (netip.AddrPort, chan string) {
	got := make(chan string, 1000)
	return edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		got <- fmt.Sprintf("%s %s %s %s X-Set:%s", r.Method, r.Host, r.RequestURI, body, r.Header.Get("X-Set"))
		w.WriteHeader(500)
	}), got
}

// next waits for a copy.
func next(t testing.TB, got chan string) string {
	t.Helper()
	select {
	case text := <-got:
		return text
	case <-time.After(time.Minute):
		t.Fatal("there was no copy")
		return ""
	}
}

// A copy is what the backend gets, after filters too.
func TestMirror(t *testing.T) {
	set := route.Policy{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Set", Value: "1"}}}}
	strip := route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/api"}}}
	for name, policies := range map[string][]route.Policy{
		"streaming": {set, strip, mirroring(100, 10)},
		"buffering": {set, strip, {Chain: &route.Chain{Policies: []route.Policy{buffers(1000, 0), mirroring(100, 10)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			copied, got := copies(t)
			e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, policies...), "copy", copied))
			w := edgetest.Dial(t, e.Address)
			if _, body := w.Get("/api/a?b"); !strings.HasPrefix(body, "GET /a?b \n") {
				t.Errorf("got %q", body)
			}
			if text := next(t, got); text != "GET shop.example /a?b  X-Set:1" {
				t.Errorf("copied %q", text)
			}
			w.Post("/api/p", "0123456789")
			if text := next(t, got); text != "POST shop.example /p 0123456789 X-Set:1" {
				t.Errorf("copied %q", text)
			}
			w.Send("POST /api/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Set: 2\r\n\r\n")
			if _, body := w.Response("POST"); !strings.HasPrefix(body, "POST /c hello\n") || strings.Contains(body, "trailer X-Set") {
				t.Errorf("got %q", body)
			}
			if text := next(t, got); text != "POST x /c hello X-Set:1" {
				t.Errorf("copied %q", text)
			}
			// Too large to be copied, but not to be served.
			large := strings.Repeat("x", 100)
			if _, body := w.Post("/api/l", large); !strings.HasPrefix(body, "POST /l "+large) {
				t.Errorf("got %q", body)
			}
			w.Send("POST /api/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + large + "\r\n0\r\n\r\n")
			if _, body := w.Response("POST"); !strings.HasPrefix(body, "POST /m "+large) {
				t.Errorf("got %q", body)
			}
			w.Get("/api/end")
			if text := next(t, got); !strings.Contains(text, " /end ") {
				t.Errorf("copied %q, want none of those that are too large", text)
			}
			e.rest()
			e.Close()
			if held := e.Stats().BufferedBytes; held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
		})
	}
}

func TestMirrorPercent(t *testing.T) {
	copied, got := copies(t)
	e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, mirroring(30, 0)), "copy", copied))
	w := edgetest.Dial(t, e.Address)
	for range 100 {
		w.Get("/")
	}
	for range 100 {
		w.Post("/", "a body, of which there are to be no copies")
	}
	for range 30 {
		next(t, got)
	}
	e.Close() // waits for those that run
	if len(got) != 0 || e.Stats().Mirrored != 30 {
		t.Errorf("%d copies, want 30", e.Stats().Mirrored)
	}
}

// A backend for copies that is slow, broken or gone affects no other request.
func TestMirrorNeverHurts(t *testing.T) {
	release := make(chan struct{})
	var stuck atomic.Int32
	backends := map[string]netip.AddrPort{
		"gone":   programs.FreeAddress(t),
		"broken": raw(t, func(conn net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(conn, "garbage\r\n\r\n") }),
		"stuck": raw(t, func(net.Conn, *bufio.Reader) {
			stuck.Add(1)
			<-release
		}),
	}
	for name, address := range backends {
		t.Run(name, func(t *testing.T) {
			e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, mirroring(100, 100)), "copy", address), func(c *proxy.Config) { c.MirrorsInFlight = 4 })
			w := edgetest.Dial(t, e.Address)
			for i := range 50 {
				if response, body := w.Post("/", fmt.Sprint(i)); response.StatusCode != 200 || !strings.HasPrefix(body, fmt.Sprintf("POST / %d\n", i)) {
					t.Fatalf("got %d %q", response.StatusCode, body)
				}
			}
			e.rest()
			stats := e.Stats()
			if name == "stuck" && (stats.Mirrored != 4 || stats.MirrorsDropped != 46) {
				t.Errorf("got %+v, want 4 copies and the others dropped", stats)
			}
		})
	}
	close(release)
}

// A request whose backend does not want its body is not copied in part.
func TestMirrorOfCutUpload(t *testing.T) {
	copied, got := copies(t)
	e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{raw(t, func(conn net.Conn, read *bufio.Reader) {
		if _, err := http.ReadRequest(read); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, read)
		}
	})}, mirroring(100, 1000)), "copy", copied))
	w := edgetest.Dial(t, e.Address)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nonly this")
	if response, _ := w.Response("POST"); response.StatusCode != 413 {
		t.Errorf("got %d", response.StatusCode)
	}
	w.RequireClosed()
	e.rest()
	e.Close()
	if len(got) != 0 || e.Stats().BufferedBytes != 0 {
		t.Errorf("copied %d, %d bytes held", len(got), e.Stats().BufferedBytes)
	}
}

// A stream that is too long to be copied holds no memory while it goes on.
func TestMirrorOfLongStream(t *testing.T) {
	copied, got := copies(t)
	arrived := make(chan error)
	e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{raw(t, func(conn net.Conn, read *bufio.Reader) {
		request, err := http.ReadRequest(read)
		if err != nil {
			arrived <- err
			return
		}
		for _, size := range []int64{5, 20, 1 << 20} {
			_, err := io.CopyN(io.Discard, request.Body, size)
			arrived <- err
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})}, mirroring(100, 10)), "copy", copied))
	w := edgetest.Dial(t, e.Address)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	if err := <-arrived; err != nil || e.Stats().BufferedBytes == 0 {
		t.Errorf("the first piece: %v, %d bytes held", err, e.Stats().BufferedBytes)
	}
	w.Send("14\r\n" + strings.Repeat("x", 20) + "\r\n")
	if err := <-arrived; err != nil || e.Stats().BufferedBytes != 0 {
		t.Errorf("the second piece: %v, %d bytes held", err, e.Stats().BufferedBytes)
	}
	w.Send("0\r\n\r\n")
	if err := <-arrived; err != io.EOF {
		t.Errorf("the end is %v", err)
	}
	if response, _ := w.Response("POST"); response.StatusCode != 200 {
		t.Errorf("got %d", response.StatusCode)
	}
	e.rest()
	e.Close()
	if len(got) != 0 || e.Stats().BufferedBytes != 0 || e.Stats().MirrorsDropped != 1 {
		t.Errorf("copied %d, got %+v", len(got), e.Stats())
	}
}
