package proxy_test

import (
	"bufio"
	"bytes"
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
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// longBody is more than the pipes and sockets on its way have room for, and does not repeat at
// their boundaries.
var longBody = func() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 6<<20; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Bytes()
}()

// longResponses responds by the path with the long body: as a whole, in chunks of a megabyte, until
// the end of the connection, or broken off.
func longResponses(conn net.Conn, read *bufio.Reader) {
	for {
		request, err := http.ReadRequest(read)
		if err != nil {
			return
		}
		body := longBody
		switch request.URL.Path {
		case "/length":
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
			_, _ = conn.Write(body)
		case "/chunks":
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for len(body) > 0 {
				n := min(len(body), 1<<20)
				fmt.Fprintf(conn, "%x\r\n%s\r\n", n, body[:n])
				body = body[n:]
			}
			fmt.Fprint(conn, "0\r\nX-End: yes\r\n\r\n")
		case "/close":
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			_, _ = conn.Write(body)
			return
		default:
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
			_, _ = conn.Write(body[:len(body)-1])
			return
		}
	}
}

// TestLongBodies passes long bodies on unchanged, in all framings and one after the other on a
// connection, and counts their bytes.
func TestLongBodies(t *testing.T) {
	var counted atomic.Int64
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, longResponses)}), func(c *proxy.Config) {
		c.Observe = func(r *proxy.Record) { counted.Store(r.Sent) }
	})
	w := edgetest.Dial(t, e.Address)
	for range 3 {
		for _, path := range []string{"/length", "/chunks"} {
			response, body := w.Get(path)
			if body != string(longBody) {
				t.Fatalf("%s: %d of %d bytes came, or others", path, len(body), len(longBody))
			}
			if path == "/chunks" && response.Trailer.Get("X-End") != "yes" {
				t.Errorf("the trailers are %v", response.Trailer)
			}
			programs.Until(t, "the record", func() bool { return counted.Swap(0) == int64(len(longBody)) })
		}
	}
	if _, body := w.Get("/close"); body != string(longBody) {
		t.Errorf("/close: %d of %d bytes came, or others", len(body), len(longBody))
	}
}

// TestLongBodyBreaksOff ends the client's connection when the endpoint's ends too early: it
// must not look complete.
func TestLongBodyBreaksOff(t *testing.T) {
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, longResponses)}))
	for range 2 {
		response := must.Get(http.Get("http://" + e.Address + "/broken"))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != io.ErrUnexpectedEOF || len(body) != len(longBody)-1 {
			t.Errorf("%d of %d bytes came: %v", len(body), len(longBody), err)
		}
	}
}

// TestLongBodyUnread ends the responses of clients that read nothing, at the write timeout or when
// they leave, and serves others meanwhile.
func TestLongBodyUnread(t *testing.T) {
	ended := make(chan string, 2)
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, longResponses)}), func(c *proxy.Config) {
		c.Timeouts.Write = 300 * time.Millisecond
		c.Observe = func(r *proxy.Record) {
			if r.Reason != "" {
				ended <- r.Reason
			}
		}
	})
	silent, leaving := edgetest.Dial(t, e.Address), must.Get(net.Dial("tcp", e.Address))(t)
	silent.Send("GET /length HTTP/1.1\r\nHost: a.example\r\n\r\n")
	must.Get(io.WriteString(leaving, "GET /length HTTP/1.1\r\nHost: a.example\r\n\r\n"))(t)
	must.Get(io.ReadFull(leaving, make([]byte, 100<<10)))(t)
	must.Do(t, leaving.Close())
	for range 2 {
		if _, body := edgetest.Dial(t, e.Address).Get("/length"); body != string(longBody) {
			t.Errorf("another client got %d bytes", len(body))
		}
	}
	for range 2 {
		if reason := <-ended; !strings.HasPrefix(reason, "write: ") {
			t.Errorf("a response ended with %q", reason)
		}
	}
}
