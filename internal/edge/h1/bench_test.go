package h1_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// browserGet is what a browser sends for a page, with ten headers.
const browserGet = "GET /shop/items/4711?ref=home&page=2 HTTP/1.1\r\n" +
	"Host: shop.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Referer: https://shop.example.com/shop\r\n" +
	"Connection: keep-alive\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n" +
	"Sec-Fetch-Mode: navigate\r\n" +
	"Cache-Control: max-age=0\r\n" +
	"\r\n"

const backendReply = "HTTP/1.1 200 OK\r\n" +
	"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" +
	"Content-Type: text/html; charset=utf-8\r\n" +
	"Content-Length: 1234\r\n" +
	"Cache-Control: private, max-age=0\r\n" +
	"Etag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"\r\n" +
	"Set-Cookie: session=0123456789abcdef; Path=/; HttpOnly\r\n" +
	"Vary: Accept-Encoding\r\n" +
	"\r\n"

var benchPeer = h1.Peer{Address: "203.0.113.7", Proto: "https", Port: "443", Server: "edge-7f9c"}

func BenchmarkParseRequest(b *testing.B) {
	limits := h1.DefaultLimits()
	raw := []byte(browserGet)
	var head h1.Head
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		head.Reset()
		if n, err := head.Parse(raw, &limits); n != len(raw) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkForwardRequest(b *testing.B) {
	limits := h1.DefaultLimits()
	var head h1.Head
	if _, err := head.Parse([]byte(browserGet), &limits); err != nil {
		b.Fatal(err)
	}
	edit, err := h1.SetField("X-Request-Start", "t=1")
	must.Do(b, err)
	for _, bench := range []struct {
		name string
		plan h1.ForwardPlan
	}{
		{"plain", h1.ForwardPlan{Peer: benchPeer}},
		{"edited", h1.ForwardPlan{Peer: benchPeer, Edits: []h1.Edit{edit}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.plan.AppendTo(buf, &head); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseResponse(b *testing.B) {
	limits := h1.DefaultLimits()
	raw := []byte(backendReply)
	var head h1.ResponseHead
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		head.Reset(h1.RequestInfo{})
		if n, err := head.Parse(raw, &limits); n != len(raw) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkReply(b *testing.B) {
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	head.Reset(h1.RequestInfo{})
	if _, err := head.Parse([]byte(backendReply), &limits); err != nil {
		b.Fatal(err)
	}
	plan := h1.ResponsePlan{Minor: 1}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = plan.AppendTo(buf[:0], &head)
	}
}

// BenchmarkChunks follows 32 KiB, as much as one read brings, of a chunked body.
func BenchmarkChunks(b *testing.B) {
	limits := h1.DefaultLimits()
	for _, size := range []string{"16", "256", "4096"} {
		data := strings.Repeat("x", map[string]int{"16": 16, "256": 256, "4096": 4096}[size])
		var raw []byte
		for len(raw) < 32<<10 {
			raw = appendChunk(raw, []byte(data))
		}
		raw = h1.AppendLastChunk(raw, nil)
		for _, mode := range []string{"pass", "decode"} {
			b.Run(mode+"/"+size, func(b *testing.B) {
				var body h1.Body
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					body.Reset(h1.Chunked, 0, mode == "decode", &limits)
					rest := raw
					for !body.Done() {
						_, used, err := body.Next(rest)
						must.Do(b, err)
						rest = rest[used:]
					}
				}
			})
		}
	}
}
