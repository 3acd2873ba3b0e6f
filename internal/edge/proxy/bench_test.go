package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// canned responds to every read of a connection with the same bytes.
func canned(b *testing.B, reply string) netip.AddrPort {
	b.Helper()
	return programs.Serve(b, "", func(conn net.Conn) {
		buf, reply := make([]byte, 64<<10), []byte(reply)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	})
}

const browserGet = "GET /shop/cart?item=1234 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
	"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br\r\nCookie: a=b; c=d\r\n\r\n"

const smallReply = "HTTP/1.1 200 OK\r\nDate: Sun, 01 Mar 2026 12:00:00 GMT\r\nContent-Type: text/html\r\nCache-Control: no-cache\r\nContent-Length: 5\r\n\r\nhello"

// BenchmarkExchange is a small request and its response, on connections that
// stay open. It is here to see that policies cost nothing where there are none.
func BenchmarkExchange(b *testing.B) {
	reply := []byte("hello")
	post := strings.Replace(browserGet, "\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello", 1)
	post = strings.Replace(post, "GET", "POST", 1)
	header := route.Policy{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-A", Value: "b"}}}}
	observed := func(c *proxy.Config) { c.Observe = func(*proxy.Record) {} }
	for _, bench := range []struct {
		name, request string
		policies      []route.Policy
		options       []func(*proxy.Config)
	}{
		{"get", browserGet, nil, nil},
		{"get observed", browserGet, nil, []func(*proxy.Config){observed}},
		{"get with a filter", browserGet, []route.Policy{header}, nil},
		{"post", post, nil, nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := start(b, edgetest.Table([]netip.AddrPort{canned(b, smallReply)}, bench.policies...), bench.options...)
			conn, err := net.Dial("tcp", e.Address)
			must.Do(b, err)
			defer conn.Close()
			buf, request := make([]byte, 4096), []byte(bench.request)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				if n, err := conn.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], reply) {
					b.Fatal(fmt.Errorf("%q, %w", buf[:n], err))
				}
			}
		})
	}
}

// BenchmarkStream is the same exchange as one stream of HTTP/2, on a connection
// in memory.
func BenchmarkStream(b *testing.B) {
	e := start(b, edgetest.Table([]netip.AddrPort{canned(b, smallReply)}))
	from := proxy.Accepted{EntryPoint: "web", Protocol: "HTTP/2", Client: netip.MustParseAddrPort("192.0.2.1:1"), Local: netip.MustParseAddrPort("192.0.2.2:443")}
	buf, request := make([]byte, 4096), []byte(browserGet)
	b.ReportAllocs()
	for b.Loop() {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.ServeStream(far, from)
		}()
		if _, err := near.Write(request); err != nil {
			b.Fatal(err)
		}
		if n, err := io.ReadAtLeast(near, buf, len(smallReply)); err != nil || !bytes.HasSuffix(buf[:n], []byte("hello")) {
			b.Fatal(fmt.Errorf("%q, %w", buf[:n], err))
		}
		near.Close()
		<-done
	}
}

// BenchmarkPolicies is the price of the policies that do more than look at a
// head.
func BenchmarkPolicies(b *testing.B) {
	text := strings.Repeat("all work and no play makes a long text\n", 100)
	reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	auth := route.Policy{ForwardAuth: &route.ForwardAuth{Backend: edgetest.BackendID("side"), Path: "/"}}
	for _, bench := range []struct {
		name   string
		policy route.Policy
	}{
		{"buffering", buffers(1<<20, 1<<20)}, {"compression", compressing}, {"retry", retrying(nil)},
		{"errorPages", route.Policy{ErrorPages: &route.ErrorPages{Statuses: []route.StatusRange{{From: 500, To: 599}}, Backend: edgetest.BackendID("side"), Path: "/"}}},
		{"forwardAuth", auth},
	} {
		b.Run(bench.name, func(b *testing.B) {
			address := canned(b, reply)
			e := start(b, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{address}, bench.policy), "side", address))
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			request, err := http.NewRequest("GET", "http://"+e.Address+"/", nil)
			must.Do(b, err)
			request.Header.Set("Accept-Encoding", "gzip")
			for b.Loop() {
				response, err := client.Do(request)
				must.Do(b, err)
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
}
