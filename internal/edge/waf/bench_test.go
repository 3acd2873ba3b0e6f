package waf_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/waf"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// inMemory is a body that has been read.
type inMemory string

func (b inMemory) BufferBody(int64) (filter.BufferedBody, *filter.LocalResponse) { return b, nil }

func (b inMemory) Size() int64 { return int64(len(b)) }

func (b inMemory) Each(yield func([]byte) error) error { return yield([]byte(b)) }

// BenchmarkCoreRules is the time of the phases of a request, with the whole Core Rule Set.
func BenchmarkCoreRules(b *testing.B) {
	chain := must.Get(filter.Deps{
		Counters: filter.NewCounters(filter.Exchange{}.Now), WAF: waf.New(waf.Options{Log: slog.New(slog.DiscardHandler)}).Compile,
	}.Compile([]route.Policy{{WAF: &route.WAF{Directives: secured}}}))(b)
	upload := "--line\r\nContent-Disposition: form-data; name=\"file\"; filename=\"words.txt\"\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("word ", 209716)[:1<<20] + "\r\n--line--\r\n"
	form := "Content-Type: application/x-www-form-urlencoded\r\n"
	for _, c := range []struct{ name, head, body string }{
		{"get", "GET /shop/items?page=2&sort=name HTTP/1.1\r\n", ""},
		{"form-1KiB", "POST /shop/items HTTP/1.1\r\nContent-Length: 1024\r\n" + form, "text=" + strings.Repeat("word ", 204)[:1019]},
		{"form-128KiB", "POST /shop/items HTTP/1.1\r\nContent-Length: 131072\r\n" + form, "text=" + strings.Repeat("word ", 26300)[:131067]},
		{"upload-1MiB", "POST /shop/items HTTP/1.1\r\nContent-Length: 1048738\r\nContent-Type: multipart/form-data; boundary=line\r\n", upload},
	} {
		b.Run(c.name, func(b *testing.B) {
			var head h1.Head
			limits := h1.DefaultLimits()
			raw := c.head + "Host: shop.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html\r\nCookie: session=0123456789abcdef\r\n\r\n"
			if n, err := head.Parse([]byte(raw), &limits); err != nil || n != len(raw) {
				b.Fatal(n, err)
			}
			var x filter.Exchange
			b.ReportAllocs()
			for b.Loop() {
				x.Begin(&head, chain.Marks())
				x.Client, x.Bufferer = netip.MustParseAddr("192.0.2.1"), inMemory(c.body)
				ran, local := chain.Request(&x)
				if local != nil {
					b.Fatal(local)
				}
				chain.Done(&x, ran)
			}
		})
	}
}
