package edge_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestForward(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	tests := []struct{ name, request, want string }{
		{"get", "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b=c "},
		{"post", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "POST / hello"},
		{"chunked", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "POST / hello"},
		{"empty post", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "POST / "},
		{"one spelling of a path", "GET /%61/./b//c/../d HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a/b/d "},
	}
	w := edgetest.Dial(t, s.address) // all on one connection: each must leave it clean
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w.T = t
			w.Send(test.request)
			response, body := w.Response("GET")
			if response.StatusCode != 200 || !strings.HasPrefix(body, test.want+"\n") {
				t.Errorf("got %d %q, want 200 and %q", response.StatusCode, body, test.want)
			}
		})
	}
}

// Three requests in one packet get their responses, in order.
func TestPipelined(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	w := edgetest.Dial(t, s.address)
	w.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n!GET /3 HTTP/1.1\r\nHost: x\r\n\r\n")
	for _, want := range []string{"GET /1 \n", "POST /2 !\n", "GET /3 \n"} {
		if _, body := w.Response("GET"); !strings.HasPrefix(body, want) {
			t.Errorf("got %q, want %q", body, want)
		}
	}
}

// The headers with the client's identity come from the edge alone, in whatever spelling
// the client tries them, and no Connection header removes them.
func TestIdentityHeaders(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 6.6.6.6\r\nx-real-ip: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n" +
		"X-FORWARDED-PROTO: https\r\nConnection: keep-alive, x-real-ip, X-Forwarded-For\r\nX-Keep: yes\r\n\r\n")
	_, body := w.Response("GET")
	for _, want := range []string{"X-Forwarded-For: 127.0.0.1\n", "X-Real-Ip: 127.0.0.1\n", "X-Forwarded-Proto: http\n", "X-Forwarded-Host: shop.example\n", "X-Keep: yes\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("the backend did not get %q:\n%s", want, body)
		}
	}
	for _, not := range []string{"6.6.6.6", "Forwarded: for", "https", "Connection:"} {
		if strings.Contains(body, not) {
			t.Errorf("the backend got %q:\n%s", not, body)
		}
	}
}

// Anything that two readers could read differently is refused, and the
// connection with it.
func TestRefused(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	tests := []struct {
		name, request string
		status        int
	}{
		{"both lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
		{"space before colon", "GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400},
		{"bare line feed", "GET / HTTP/1.1\nHost: x\n\n", 400},
		{"folded line", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"encoded slash", "GET /a%2fb HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"connect", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400},
		{"large head", "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 33<<10) + "\r\n\r\n", 431},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := edgetest.Dial(t, s.address)
			w.Send(test.request)
			response, _ := w.Response("GET")
			if response.StatusCode != test.status || !response.Close {
				t.Errorf("got %d, close %v; want %d and a closed connection", response.StatusCode, response.Close, test.status)
			}
			w.RequireClosed()
		})
	}
}

// A chunk that is broken in the middle of an upload reaches no backend as a
// whole request.
func TestBrokenUpload(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	s := start(t, tableFor(edgetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 3))
		close(began)
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})))
	w := edgetest.Dial(t, s.address)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n")
	<-began
	w.Send("XX\r\n")
	response, _ := w.Response("POST")
	if response.StatusCode != 400 {
		t.Errorf("got %d, want 400", response.StatusCode)
	}
	w.RequireClosed()
	if err := <-ended; err == nil {
		t.Error("the backend took the broken body for a whole one")
	}
}

func TestLargeBodies(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		// net/http throws input away when a handler responds before it has read it.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, bytes.NewReader(body))
	})))
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, back as chunks
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, known := range []bool{true, false} {
		body := io.Reader(bytes.NewReader(sent))
		if !known {
			body = io.MultiReader(body) // its length cannot be seen: sent in chunks
		}
		response := must.Get(client.Post("http://"+s.address+"/", "text/plain", body))(t)
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("length known %v: got %d bytes and %v, want the %d that were sent", known, len(got), err, len(sent))
		}
	}
}

// What a backend has sent goes on at once, without waiting for more.
func TestStreamsAtOnce(t *testing.T) {
	next := make(chan struct{})
	s := start(t, tableFor(edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response := must.Get(client.Get("http://" + s.address + "/"))(t)
	defer response.Body.Close()
	for i := range 3 {
		line := make([]byte, 8)
		if _, err := io.ReadFull(response.Body, line); err != nil || string(line) != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("got %q and %v", line, err)
		}
		next <- struct{}{}
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	w := edgetest.Dial(t, s.address)
	w.Send("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if response, err := http.ReadResponse(w.Reader, nil); err != nil || response.StatusCode != 100 {
		t.Fatalf("got %v and %v, want 100", response, err)
	}
	w.Send("hello")
	if _, body := w.Response("PUT"); !strings.HasPrefix(body, "PUT / hello\n") || strings.Contains(body, "Expect") {
		t.Errorf("got %q", body)
	}
}

// A response that comes before the end of the upload is passed on, and neither
// connection is used again.
func TestEarlyAnswer(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})))
	w := edgetest.Dial(t, s.address)
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nonly this much")
	response, _ := w.Response("POST")
	if response.StatusCode != 413 || !response.Close {
		t.Errorf("got %d, close %v", response.StatusCode, response.Close)
	}
	w.RequireClosed()
}

func TestUpgrade(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		// The first bytes of the new protocol come with the head of the response.
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nhello ", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
	})))
	w := edgetest.Dial(t, s.address)
	w.Send("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nearly ")
	response, err := http.ReadResponse(w.Reader, nil)
	if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("got %v and %v", response, err)
	}
	w.Send("late")
	must.Do(t, w.Conn.(*net.TCPConn).CloseWrite())
	if got, err := io.ReadAll(w.Reader); err != nil || string(got) != "hello early late" {
		t.Errorf("got %q and %v", got, err)
	}
}

// Nothing listens on one of the two endpoints: no client notices.
func TestRetryOnAnotherEndpoint(t *testing.T) {
	gone := programs.FreeAddress(t)
	s := start(t, tableFor(gone, edgetest.Backend(t, edgetest.Echo)))
	w := edgetest.Dial(t, s.address)
	for range 50 {
		w.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
		if response, body := w.Response("POST"); response.StatusCode != 200 || !strings.HasPrefix(body, "POST / hi\n") {
			t.Fatalf("got %d %q", response.StatusCode, body)
		}
	}
}

// A pooled connection that the backend has closed is replaced without the
// client seeing it.
func TestStaleConnection(t *testing.T) {
	backend := programs.Serve(t, "", func(conn net.Conn) {
		// One response with keep-alive, and then the end.
		if _, err := conn.Read(make([]byte, 4096)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := start(t, tableFor(backend))
	w := edgetest.Dial(t, s.address)
	for range 200 {
		w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if response, body := w.Response("GET"); response.StatusCode != 200 || body != "ok" {
			t.Fatalf("got %d %q", response.StatusCode, body)
		}
	}
}

func TestOwnAnswers(t *testing.T) {
	closing := edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	table := tableFor(closing)
	table.Rules[0].Host = "closing.example"
	empty := route.BackendID{Name: "empty", Port: 80}
	table.Backends = append(table.Backends, &route.Backend{ID: empty})
	prefix := route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}}
	table.Rules = append(table.Rules,
		&route.Rule{ID: route.ID{Name: "empty"}, Host: "empty.example", Match: prefix, Backends: []route.BackendRef{{Backend: empty}}},
		&route.Rule{ID: route.ID{Name: "gone"}, Host: "gone.example", Match: prefix, Response: &route.Response{Status: 410, Reason: route.ReasonConfigured}},
		&route.Rule{ID: route.ID{Name: "users"}, Host: "users.example", Match: prefix, Backends: table.Rules[0].Backends,
			Policies: []route.Policy{{BasicAuth: &route.BasicAuth{Users: route.NewSecret("somebody:{PLAIN}secret")}}}},
	)
	s := start(t, table)
	tests := []struct {
		name, host string
		status     int
	}{
		{"no route", "other.example", 404},
		{"no endpoint", "empty.example", 503},
		{"configured", "gone.example", 410},
		{"a policy that cannot be compiled fails closed", "users.example", 503},
		{"the backend hangs up", "closing.example", 502},
	}
	w := edgetest.Dial(t, s.address) // these answers leave the connection usable
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w.T = t
			w.Send("GET / HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")
			if response, _ := w.Response("GET"); response.StatusCode != test.status || response.Close {
				t.Errorf("got %d, close %v; want %d on a connection that goes on", response.StatusCode, response.Close, test.status)
			}
			w.Send("HEAD / HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")
			if response, body := w.Response("HEAD"); response.StatusCode != test.status || body != "" {
				t.Errorf("HEAD: got %d and body %q", response.StatusCode, body)
			}
		})
	}
}

// A table that is not valid changes nothing.
func TestBadTableKeepsTheOld(t *testing.T) {
	good := tableFor(edgetest.Backend(t, edgetest.Echo))
	s := start(t, good)
	bad := tableFor(netip.MustParseAddrPort("127.0.0.1:1"))
	bad.Rules[0].Backends[0].Backend.Name = "nobody"
	var invalid *route.InvalidError
	twice := tableFor(netip.MustParseAddrPort("127.0.0.1:1"))
	twice.Rules = append(twice.Rules, twice.Rules[0])
	if err := s.Apply(twice); !errors.As(err, &invalid) {
		t.Errorf("got %v, want a table with one identity twice refused", err)
	}
	if err := s.Apply(bad); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "nobody") {
		t.Fatalf("got %v, want an error that names what is wrong", err)
	}
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 200 {
		t.Errorf("got %d, want the old table", response.StatusCode)
	}
}
