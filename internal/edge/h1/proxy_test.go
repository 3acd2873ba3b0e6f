package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// smallProxy is the least that can be made of this package: one goroutine and
// one backend connection for each client, the body sent before the response is
// read. It stands between net/http's client and server to show that both
// understand what the codec makes of them.
type smallProxy struct {
	address string
	backend string
	pool    h1.BufferPool
	limits  h1.Limits
	times   h1.Timeouts
}

func startProxy(t testing.TB, backend string, wrap func(net.Conn) net.Conn) *smallProxy {
	t.Helper()
	p := &smallProxy{backend: backend, limits: h1.DefaultLimits(), times: h1.DefaultTimeouts()}
	p.address = programs.Serve(t, "", func(conn net.Conn) {
		if wrap != nil {
			conn = wrap(conn)
		}
		_ = p.serve(conn)
	}).String()
	return p
}

// exchange is the state of one client connection.
type exchange struct {
	proxy    *smallProxy
	client   *h1.Reader
	toClient *h1.Writer
	conn     net.Conn
	up       net.Conn
	backend  *h1.Reader
	toUp     *h1.Writer
	head     h1.Head
	response h1.ResponseHead
	body     h1.Body
	space    []byte
}

func (p *smallProxy) serve(conn net.Conn) error {
	up, err := net.Dial("tcp", p.backend)
	if err != nil {
		return err
	}
	defer up.Close()
	x := &exchange{
		proxy: p, conn: conn, up: up,
		client: h1.NewReader(conn, &p.pool, p.times), toClient: h1.NewWriter(conn, &p.pool, p.times),
		backend: h1.NewReader(up, &p.pool, p.times), toUp: h1.NewWriter(up, &p.pool, p.times),
		space: p.pool.Get(32 << 10),
	}
	defer x.client.Close()
	defer x.backend.Close()
	defer p.pool.Put(x.space)
	for {
		if err := x.client.ReadRequest(&x.head, &p.limits); err != nil {
			if status := h1.StatusOf(err); status != 0 {
				fmt.Fprintf(conn, "HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
			}
			return err
		}
		again, err := x.pass()
		if err != nil || !again {
			return err
		}
	}
}

// pass passes on one request and its response.
func (x *exchange) pass() (again bool, err error) {
	p := x.proxy
	plan := h1.ForwardPlan{Peer: testPeer, Upgrade: true}
	if x.head.URI.Authority == nil {
		plan.Host = "backend"
	}
	out, err := plan.AppendTo(x.space[:0], &x.head)
	if err != nil {
		return false, err
	}
	if x.head.ExpectContinue {
		if _, err := x.toClient.Write([]byte(h1.Continue)); err != nil {
			return false, err
		}
	}
	x.body.Reset(x.head.Framing, x.head.Length, false, &p.limits)
	upload := h1.Transfer{From: x.client, To: x.toUp, Head: out, Body: &x.body}
	if err := upload.Run(); err != nil {
		return false, err
	}
	for {
		if err := x.backend.ReadResponse(&x.response, plan.RequestInfo(&x.head), &p.limits); err != nil {
			return false, err
		}
		if !x.response.Interim() {
			break
		}
		reply := h1.ResponsePlan{Minor: x.head.Minor}
		if _, err := x.toClient.Write(reply.AppendTo(x.space[:0], &x.response)); err != nil {
			return false, err
		}
	}
	framing, again := h1.ResponseFraming(&x.head, &x.response)
	reply := h1.ResponsePlan{Minor: x.head.Minor, Framing: framing, Length: x.response.Length, Close: !again || !x.response.Reusable}
	recoded := framing != x.response.Framing
	x.body.Reset(x.response.Framing, x.response.Length, recoded, &p.limits)
	download := h1.Transfer{
		From: x.backend, To: x.toClient, Head: reply.AppendTo(x.space[:0], &x.response), Body: &x.body,
		Encode: recoded && framing == h1.Chunked,
	}
	if err := download.Run(); err != nil {
		return false, err
	}
	if x.response.Status == 101 {
		return false, x.tunnel()
	}
	return again && x.response.Reusable && len(x.backend.Unread()) == 0, nil
}

// tunnel passes on bytes both ways until one side ends.
func (x *exchange) tunnel() error {
	var up, down h1.Body
	up.Reset(h1.UntilClose, 0, false, &x.proxy.limits)
	down.Reset(h1.UntilClose, 0, false, &x.proxy.limits)
	ended := run(func() {
		transfer := h1.Transfer{From: x.client, To: x.toUp, Body: &up}
		_ = transfer.Run()
		x.up.(*net.TCPConn).CloseWrite()
	})
	transfer := h1.Transfer{From: x.backend, To: x.toClient, Body: &down}
	err := transfer.Run()
	x.conn.Close()
	<-ended
	return err
}

// echo responds with what it received, in a way that the path chooses.
func echo(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s %d %x", r.Method, r.Host, r.RequestURI, len(data), sha256.Sum256(data)))
	w.Header().Set("X-Saw-For", strings.Join(r.Header.Values("X-Forwarded-For"), "|"))
	if r.Trailer.Get("X-Sum") != "" {
		w.Header().Set("X-Saw-Trailer", r.Trailer.Get("X-Sum"))
	}
	switch r.URL.Path {
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/same":
		w.WriteHeader(http.StatusNotModified)
		return
	case "/hints":
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	case "/flush":
		w.Header().Set("Trailer", "X-Answer-Sum")
		for len(data) > 0 {
			n := min(len(data), 1000)
			_, _ = w.Write(data[:n])
			data = data[n:]
			http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Answer-Sum", "42")
		return
	case "/close":
		w.Header().Set("Connection", "close")
	}
	_, _ = w.Write(data)
}

func startEcho(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// plainConn hides that a connection is TCP, as TLS does.
func plainConn(conn net.Conn) net.Conn { return struct{ net.Conn }{conn} }

// TestProxyEcho sends all kinds of requests through, many at a time, and checks
// that each side saw exactly what the other sent.
func TestProxyEcho(t *testing.T) {
	backend := startEcho(t)
	for name, wrap := range map[string]func(net.Conn) net.Conn{"TCP": nil, "other": plainConn} {
		t.Run(name, func(t *testing.T) {
			proxy := startProxy(t, backend, wrap)
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			var workers sync.WaitGroup
			for worker := range 6 {
				workers.Go(func() {
					random := rand.New(rand.NewPCG(7, uint64(worker)))
					for range 40 {
						echoOnce(t, client, proxy.address, random)
					}
				})
			}
			workers.Wait()
		})
	}
}

func echoOnce(t *testing.T, client *http.Client, address string, random *rand.Rand) {
	method := []string{"GET", "POST", "PUT", "HEAD", "DELETE", "PROPFIND"}[random.IntN(6)]
	path := []string{"/", "/none", "/same", "/hints", "/flush", "/close"}[random.IntN(6)]
	target := fmt.Sprintf("%s?n=%d", path, random.Uint64())
	data := make([]byte, []int{0, 1, 100, 5000, 70_000, 400_000}[random.IntN(6)])
	_, _ = rand.NewChaCha8([32]byte{byte(random.Uint32())}).Read(data)
	request, err := http.NewRequestWithContext(context.Background(), method, "http://"+address+target, bytes.NewReader(data))
	if err != nil {
		t.Error(err)
		return
	}
	trailer := ""
	if random.IntN(2) == 0 && len(data) > 0 {
		request.Body, request.ContentLength = io.NopCloser(struct{ io.Reader }{bytes.NewReader(data)}), -1
		trailer = fmt.Sprint(random.Uint32())
		request.Trailer = http.Header{"X-Sum": {trailer}}
	}
	if random.IntN(3) == 0 {
		request.Header.Set("Expect", "100-continue")
	}
	request.Header.Set("X-Forwarded-For", "127.0.0.1")
	response, err := client.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s %s: body: %v", method, target, err)
	}
	want := fmt.Sprintf("%s %s %s %d %x", method, address, target, len(data), sha256.Sum256(data))
	if saw := response.Header.Get("X-Saw"); saw != want {
		t.Errorf("the backend saw %q, want %q", saw, want)
	}
	if saw := response.Header.Get("X-Saw-For"); saw != testPeer.Address {
		t.Errorf("the backend saw X-Forwarded-For: %q", saw)
	}
	if saw := response.Header.Get("X-Saw-Trailer"); saw != trailer {
		t.Errorf("the backend saw the trailer %q, want %q", saw, trailer)
	}
	bodiless := method == "HEAD" || path == "/none" || path == "/same"
	if !bodiless && !bytes.Equal(got, data) || bodiless && len(got) > 0 {
		t.Errorf("%s %s: %d bytes came back of %d", method, target, len(got), len(data))
	}
	if path == "/flush" && method != "HEAD" && len(data) > 0 && response.Trailer.Get("X-Answer-Sum") != "42" {
		t.Errorf("%s %s: trailers %v", method, target, response.Trailer)
	}
}

// talk sends raw bytes to address and returns all that comes back.
func talk(t *testing.T, address, raw string) string {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	defer conn.Close()
	write(t, conn, raw)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer := must.Get(io.ReadAll(conn))(t)
	return string(answer)
}

func TestProxyRefuses(t *testing.T) {
	proxy := startProxy(t, startEcho(t), nil)
	address := proxy.address
	for _, attack := range attacks {
		if !strings.Contains(attack.raw, "\n") || len(attack.raw) > 5000 {
			continue
		}
		answer := talk(t, address, attack.raw+"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
		if strings.Count(answer, "HTTP/1.1 ") != 1 || !strings.Contains(answer, "Connection: close\r\n") || !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 505") {
			t.Errorf("%s: answered %q", attack.name, answer)
		}
	}
}

// TestProxyOldClients speaks HTTP/1.0 and pipelines.
func TestProxyOldClients(t *testing.T) {
	proxy := startProxy(t, startEcho(t), nil)
	address := proxy.address
	answer := talk(t, address, "GET /flush HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
	if !strings.HasSuffix(answer, "\r\n\r\nhello") || strings.Contains(answer, "chunked") || !strings.Contains(answer, "Connection: close\r\n") {
		t.Errorf("HTTP/1.0 got %q", answer)
	}
	one := "POST /?n=%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab%d"
	var many strings.Builder
	for i := range 9 {
		fmt.Fprintf(&many, one, i, i)
	}
	answer = talk(t, address, many.String())
	for i := range 9 {
		if !strings.Contains(answer, fmt.Sprintf("\r\n\r\nab%d", i)) {
			t.Fatalf("request %d of a pipeline has no answer: %q", i, answer)
		}
	}
}

// TestProxyOldBackend has a backend that ends its body by closing.
func TestProxyOldBackend(t *testing.T) {
	backend := programs.Serve(t, "", func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold but good")
		}
	})
	address := startProxy(t, backend.String(), nil).address
	answer := talk(t, address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if !strings.HasSuffix(answer, "\r\n\r\nc\r\nold but good\r\n0\r\n\r\n") || !strings.Contains(answer, "Transfer-Encoding: chunked\r\n") {
		t.Errorf("HTTP/1.1 got %q", answer)
	}
	answer = talk(t, address, "GET / HTTP/1.0\r\n\r\n")
	if !strings.HasSuffix(answer, "\r\n\r\nold but good") {
		t.Errorf("HTTP/1.0 got %q", answer)
	}
}

// TestProxyUpgrade switches protocols and talks both ways.
func TestProxyUpgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nREADY\n")
		for {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, strings.ToUpper(line))
		}
	}))
	defer server.Close()
	proxy := startProxy(t, server.Listener.Addr().String(), nil)
	conn := must.Get(net.Dial("tcp", proxy.address))(t)
	defer conn.Close()
	// The first line of the new protocol comes along with the request.
	write(t, conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n\r\nearly\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("response %v, %v", response, err)
	}
	for _, want := range []string{"READY\n", "EARLY\n", "LATER\n"} {
		if want == "LATER\n" {
			write(t, conn, "later\n")
		}
		if line, err := reader.ReadString('\n'); err != nil || line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(reader); err != nil && !errors.Is(err, net.ErrClosed) || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// BenchmarkProxy is a small request and response through the proxy, on one
// connection that stays open. Most of it is the kernel's.
func BenchmarkProxy(b *testing.B) {
	backend := programs.Serve(b, "", func(conn net.Conn) {
		buf := make([]byte, 4096)
		reply := []byte(strings.Replace(backendReply, "1234", "5", 1) + "hello")
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	})
	proxy := startProxy(b, backend.String(), nil)
	conn := must.Get(net.Dial("tcp", proxy.address))(b)
	defer conn.Close()
	buf, request := make([]byte, 4096), []byte(browserGet)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if n, err := conn.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], []byte("hello")) {
			b.Fatalf("%q, %v", buf[:n], err)
		}
	}
}
