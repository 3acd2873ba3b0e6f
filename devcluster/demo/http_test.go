package demo_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/devcluster/must"
)

// echoed is the JSON that /api promises.
type echoed struct {
	Name, Version, Colour, Namespace, IP string
	Port                                 int
	Method, Host, Target, Path, Query    string
	Proto, Remote, Body                  string
	BodyBytes                            int64
	Headers                              http.Header
}

func decode(t *testing.T, got answer) echoed {
	t.Helper()
	if ct := got.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	var e echoed
	dec := json.NewDecoder(strings.NewReader(got.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	return e
}

func withBody(s string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(s))
		r.ContentLength = int64(len(s))
	}
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestAPI(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v2", []string{"POD_NAMESPACE=shop"})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			client := newClient(t, proto == "HTTP/2.0")
			got := c.fetchWith(client, "PUT", "/api?a=1&b=%20", withBody("hello"), withHeader("X-Test", "yes"), func(r *http.Request) {
				r.Host = "demo.test"
			})
			e := decode(t, got)
			if e.Remote == "" || e.Headers.Get("X-Test") != "yes" {
				t.Errorf("remote %q, headers %v", e.Remote, e.Headers)
			}
			e.Remote, e.Headers = "", nil
			want := echoed{
				Name: "pod-1", Version: "v2", Colour: "green", Namespace: "shop", IP: "127.0.0.1", Port: 8080,
				Method: "PUT", Host: "demo.test", Target: "/api?a=1&b=%20", Path: "/api", Query: "a=1&b=%20",
				Proto: proto, Body: "hello", BodyBytes: 5,
			}
			if fmt.Sprintf("%+v", e) != fmt.Sprintf("%+v", want) {
				t.Errorf("got  %+v\nwant %+v", e, want)
			}
			if pod, version := got.Header.Get("X-Slipway-Pod"), got.Header.Get("X-Slipway-Version"); pod != "pod-1" || version != "v2" {
				t.Errorf("X-Slipway-Pod %q, X-Slipway-Version %q", pod, version)
			}
			c.awaitLog("msg=request", "method=PUT", `uri="/api?a=1&b=%20"`, "host=demo.test", "proto="+proto, "status=200")
		})
	}
}

func TestBodySizes(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	for _, tt := range []struct{ sent, echoed int }{
		{0, 0}, {64 << 10, 64 << 10}, {64<<10 + 1, 0}, {1 << 20, 0},
	} {
		e := decode(t, c.fetch("POST", "/api", withBody(strings.Repeat("x", tt.sent))))
		if len(e.Body) != tt.echoed || e.BodyBytes != int64(tt.sent) {
			t.Errorf("%d bytes sent: %d echoed, %d counted, want %d echoed", tt.sent, len(e.Body), e.BodyBytes, tt.echoed)
		}
	}
}

func TestBrokenBody(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	conn := c.dial()
	fmt.Fprint(conn, "POST /api HTTP/1.1\r\nHost: demo.test\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("got %v, %v, want 400", res, err)
	}
}

// The container's environment wins over the image's.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v2", []string{
		"VERSION=v2-canary", "COLOUR=crimson", "POD_NAME=renamed", "POD_IP=192.0.2.7",
	})
	got := c.fetch("GET", "/api")
	e := decode(t, got)
	if e.Version != "v2-canary" || e.Colour != "crimson" || e.Name != "renamed" || e.IP != "192.0.2.7" {
		t.Errorf("got %+v", e)
	}
	if v := got.Header.Get("X-Slipway-Version"); v != "v2-canary" {
		t.Errorf("X-Slipway-Version %q", v)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	first, second := reserve(t), reserve(t)
	c := launchCommand(t, command("slipway.dev/demo:v1", []string{"SLIPWAY_DEMO_LISTEN=80=" + first + ", 9090=" + second}), first)
	c.awaitLog("msg=listening", "port=80", "address="+first)
	c.awaitLog("msg=listening", "port=9090", "address="+second)
	for _, want := range []struct {
		addr string
		port int
	}{{first, 80}, {second, 9090}} {
		c.addr = want.addr
		if e := decode(t, c.fetch("GET", "/api")); e.Port != want.port {
			t.Errorf("%s says port %d, want %d", want.addr, e.Port, want.port)
		}
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", []string{"POD_NAMESPACE=shop"})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, tt := range []struct {
		name, path, accept, contentType string
		want                            []string
	}{
		{"curl", "/", "*/*", "text/plain; charset=utf-8", []string{
			"Name: pod-1\nVersion: v1\nColour: blue\nNamespace: shop\nIP: 127.0.0.1\nRemote: 127.0.0.1:",
			"\n\nGET / HTTP/1.1\nHost: 127.0.0.1:", "\nAccept: */*\n"}},
		{"browser", "/", browser, "text/html; charset=utf-8", []string{
			"<h1>v1</h1>", "background: #1d4ed8;", "served by pod-1 in shop at 127.0.0.1", "GET / HTTP/1.1\nHost: 127.0.0.1:"}},
		{"any path", "/shop/cart?id=1", "*/*", "text/plain; charset=utf-8", []string{"\nGET /shop/cart?id=1 HTTP/1.1\n"}},
		{"json", "/shop/api", "application/json", "application/json", []string{`"path": "/shop/api"`}},
		{"escaped", "/?q=<script>", browser, "text/html; charset=utf-8", []string{"GET /?q=&lt;script&gt; HTTP/1.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.fetch("GET", tt.path, withHeader("Accept", tt.accept))
			if ct := got.Header.Get("Content-Type"); got.StatusCode != http.StatusOK || ct != tt.contentType {
				t.Errorf("%s, Content-Type %q, want %q", got.Status, ct, tt.contentType)
			}
			if !containsAll(got.body, tt.want) {
				t.Errorf("got %s\nwant all of %q", got.body, tt.want)
			}
			if got.Header.Get("X-Slipway-Pod") != "pod-1" {
				t.Errorf("X-Slipway-Pod %q", got.Header.Get("X-Slipway-Pod"))
			}
		})
	}
}

func TestPageColour(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ colour, want string }{
		{"crimson", "background: crimson;"},
		{"#fa0", "background: #fa0;"},
		{"red;}</style><script>", "background: ZgotmplZ;"}, // refused by html/template
	} {
		c := start(t, "slipway.dev/demo:v1", []string{"COLOUR=" + tt.colour})
		got := c.fetch("GET", "/", withHeader("Accept", "text/html"))
		if !strings.Contains(got.body, tt.want) || strings.Contains(got.body, "<script>") {
			t.Errorf("colour %q: got %s", tt.colour, got.body)
		}
	}
}

// An echo does not tidy: a proxy in front is judged by what arrives here.
func TestTargetUntouched(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	conn := c.dial()
	fmt.Fprint(conn, "GET /a/../b//c%2Fd/?x=1;y HTTP/1.1\r\nHost: demo.test\r\nAccept: application/json\r\nConnection: close\r\n\r\n")
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	e := decode(t, answer{res, string(body)})
	if e.Target != "/a/../b//c%2Fd/?x=1;y" || e.Path != "/a/../b//c%2Fd/" || e.Query != "x=1;y" {
		t.Errorf("%s: target %q, path %q, query %q", res.Status, e.Target, e.Path, e.Query)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	for _, step := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 200, "ready\n"},
		{"GET", "/unready", 405, "GET is not possible here; use POST\n"},
		{"GET", "/readyz", 200, "ready\n"},
		{"POST", "/unready", 200, "ready=false\n"},
		{"GET", "/readyz", 503, "not ready\n"},
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/ready", 405, "GET is not possible here; use POST\n"},
		{"POST", "/ready", 200, "ready=true\n"},
		{"GET", "/readyz", 200, "ready\n"},
	} {
		got := c.fetch(step.method, step.path)
		if got.StatusCode != step.status || got.body != step.body {
			t.Errorf("%s %s: got %d %q, want %d %q", step.method, step.path, got.StatusCode, got.body, step.status, step.body)
		}
		if allow := got.Header.Get("Allow"); (allow == "POST") != (step.status == 405) {
			t.Errorf("%s %s: Allow %q", step.method, step.path, allow)
		}
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path string
		http2      bool
		code       int
	}{
		{"default", "/exit", false, 1},
		{"code", "/exit?code=42", false, 42},
		{"zero", "/exit?code=0", false, 0},
		{"http2", "/exit?code=43", true, 43},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, "slipway.dev/demo:v1", nil)
			if got := c.fetch("GET", tt.path); got.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("GET %s answers %s", tt.path, got.Status)
			}
			if got := c.fetch("POST", "/exit?code=256"); got.StatusCode != http.StatusBadRequest {
				t.Errorf("POST /exit?code=256 answers %s", got.Status)
			}
			got := c.fetchWith(newClient(t, tt.http2), "POST", tt.path)
			if want := fmt.Sprintf("exiting with code %d\n", tt.code); got.body != want {
				t.Errorf("got %q, want %q", got.body, want)
			}
			if code := c.exitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	const pattern = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-\n"
	for _, http2 := range []bool{false, true} {
		client := newClient(t, http2)
		for _, n := range []int{0, 1, 1000, 1<<20 + 17} {
			got := c.fetchWith(client, "GET", fmt.Sprintf("/bytes?n=%d", n))
			if want := strings.Repeat(pattern, n/len(pattern)+1)[:n]; got.body != want || got.ContentLength != int64(n) {
				t.Errorf("http2 %t, n=%d: got %d bytes, Content-Length %d", http2, n, len(got.body), got.ContentLength)
			}
		}
	}
	if got := c.fetch("HEAD", "/bytes?n=7"); got.StatusCode != 200 || got.ContentLength != 7 {
		t.Errorf("HEAD answers %s, Content-Length %d", got.Status, got.ContentLength)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	for _, http2 := range []bool{false, true} {
		got := c.fetchWith(newClient(t, http2), "GET", "/stream?n=3&every=1ms")
		want := "id: 1\ndata: pod-1 v1\n\nid: 2\ndata: pod-1 v1\n\nid: 3\ndata: pod-1 v1\n\n"
		if got.body != want || got.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("http2 %t: got %s %q", http2, got.Header.Get("Content-Type"), got.body)
		}
	}

	// The first event is sent although the second is a minute away, and the
	// server notices a client that leaves meanwhile.
	conn := c.dial()
	fmt.Fprint(conn, "GET /stream?n=2&every=1m HTTP/1.1\r\nHost: demo.test\r\n\r\n")
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	first := make([]byte, len("id: 1\ndata: pod-1 v1\n\n"))
	if _, err := io.ReadFull(res.Body, first); err != nil || !strings.HasPrefix(string(first), "id: 1\n") {
		t.Fatalf("got %q, %v", first, err)
	}
	conn.Close()
	c.awaitLog("msg=request", `uri="/stream?n=2&every=1m"`)
}

func TestSleep(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	began := time.Now()
	if got := c.fetch("GET", "/sleep?for=20ms"); got.StatusCode != 200 || got.body != "slept for 20ms\n" {
		t.Errorf("got %s %q", got.Status, got.body)
	}
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("answered after %s", took)
	}

	conn := c.dial()
	fmt.Fprint(conn, "GET /sleep?for=60s HTTP/1.1\r\nHost: demo.test\r\n\r\n")
	conn.Close()
	c.awaitLog("msg=request", `uri="/sleep?for=60s"`, "status=499")
}

func TestBadParameters(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v1", nil)
	for _, tt := range []struct{ path, want string }{
		{"/bytes?n=-1", `n="-1": want a number from 0 to 17179869184`},
		{"/bytes?n=many", `n="many": want a number`},
		{"/bytes?n=99999999999999", "want a number from 0 to 17179869184"},
		{"/stream?n=100001", "want a number from 0 to 100000"},
		{"/stream?every=soon", `every="soon": want a duration from 0s to 1m0s`},
		{"/sleep?for=61s", `for="61s": want a duration from 0s to 1m0s`},
		{"/sleep?for=-1s", "want a duration"},
	} {
		if got := c.fetch("GET", tt.path); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: got %s %q, want 400 %q", tt.path, got.Status, got.body, tt.want)
		}
	}
}
