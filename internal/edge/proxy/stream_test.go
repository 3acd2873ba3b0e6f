package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// stream opens a connection that is served as one stream of HTTP/2.
func (e *edge) stream(t testing.TB, edits ...h1.Edit) *edgetest.Wire {
	t.Helper()
	client, conn := programs.Pipe(t)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	w := edgetest.NewWire(t, client)
	serving.Go(func() {
		e.ServeStream(conn, edgetest.Accepted(conn, proxy.Accepted{Protocol: "HTTP/2", TLS: true, Edits: edits}))
	})
	return w
}

// A stream is one request, and its response has nothing about a connection.
func TestStreamIsOneRequest(t *testing.T) {
	edit, err := h1.SetField("Alt-Svc", `h3=":443"`)
	must.Do(t, err)
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)})
	table.Rules[0].Host = "shop.example"
	e := start(t, table)
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"get", "GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\nGET /b HTTP/1.1\r\nHost: shop.example\r\n\r\n", 200},
		{"post", "POST /a HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 2\r\n\r\nhi", 200},
		{"upgrade is not passed on", "GET /a HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200},
		{"an answer of the edge's own", "GET /a HTTP/1.1\r\nHost: other.example\r\n\r\n", 404},
		{"a body that nobody reads", "POST /a HTTP/1.1\r\nHost: other.example\r\nContent-Length: 100\r\n\r\n", 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := e.stream(t, edit)
			w.Send(test.request)
			response, body := w.Response("GET")
			if response.StatusCode != test.status || response.Header.Get("Connection") != "" || response.Header.Get("Alt-Svc") == "" {
				t.Errorf("got %d and %v", response.StatusCode, response.Header)
			}
			if strings.Contains(body, "Upgrade") || strings.Contains(body, "websocket") {
				t.Errorf("the backend was asked to switch protocols:\n%s", body)
			}
			if rest, err := io.ReadAll(w.Reader); err != nil && !strings.Contains(err.Error(), "reset") || len(rest) > 0 {
				t.Errorf("after the answer: %q and %v", rest, err)
			}
		})
	}
}

// Two sides that talk to each other by turns do not wait for each other's end.
func TestStreamBothWays(t *testing.T) {
	e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Status")
		w.WriteHeader(200)
		_ = control.Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "re: %s\n", lines.Text())
			_ = control.Flush()
		}
		w.Header().Set("X-Status", "0")
	})}))
	w := e.stream(t)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n")
	response, err := http.ReadResponse(w.Reader, nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("the head waited for the body: %v", err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i := range 5 {
		w.Send(fmt.Sprintf("2\r\n%d\n\r\n", i))
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("re: %d\n", i) {
			t.Fatalf("got %q and %v", line, err)
		}
	}
	w.Send("0\r\n\r\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 || response.Trailer.Get("X-Status") != "0" {
		t.Errorf("got %q, %v and trailers %v", rest, err, response.Trailer)
	}
}

// A response that ends before the upload does is whole, and ends the upload. Its
// connection to the backend is not used again.
func TestStreamEndsEarly(t *testing.T) {
	var mu sync.Mutex
	connections := 0
	backend := raw(t, func(conn net.Conn, read *bufio.Reader) {
		mu.Lock()
		connections++
		mu.Unlock()
		for {
			request, err := http.ReadRequest(read)
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(request.URL.Path), request.URL.Path)
		}
	})
	e := start(t, edgetest.Table([]netip.AddrPort{backend}))
	for i := range 3 {
		w := e.stream(t)
		w.Send(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly this", i))
		if _, body := w.Response("POST"); body != fmt.Sprintf("/%d", i) {
			t.Errorf("got %q", body)
		}
		w.RequireClosed()
	}
	mu.Lock()
	defer mu.Unlock()
	if connections != 3 {
		t.Errorf("%d connections for 3 uploads that were cut", connections)
	}
}

// Streams of a connection share nothing: what one leaves behind is not in the
// next, which may get its memory.
func TestStreamsShareNothing(t *testing.T) {
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)},
		route.Policy{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Set", Value: "1"}}}})
	plain := *table.Rules[0]
	plain.ID.Name, plain.Host, plain.Policies = "plain", "plain.example", nil
	table.Rules = append(table.Rules, &plain)
	e := start(t, table)
	for worker := range 4 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for i := range 50 {
				w := e.stream(t)
				host, nonce := "shop.example", fmt.Sprintf("%d.%d", worker, i)
				if i%2 == 0 {
					host = "plain.example"
				}
				w.Send("POST /" + nonce + " HTTP/1.1\r\nHost: " + host + "\r\nX-Nonce: " + nonce + "\r\nContent-Length: 4\r\n\r\nbody")
				_, body := w.Response("POST")
				if !strings.Contains(body, "X-Nonce: "+nonce+"\n") || strings.Contains(body, "X-Set") != (host == "shop.example") {
					t.Errorf("%s got %q", host, body)
				}
				w.Close()
			}
		})
	}
}
