package filter_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// page is the head of a response that could be encoded, with more lines.
func page(lines ...string) string {
	return strings.Join(append([]string{"HTTP/1.1 200 OK", "Content-Type: text/html; charset=utf-8"}, append(lines, "", "")...), "\n")
}

// compressed runs a request and a response through a compression policy. It
// returns the response's head for the client, and the encoder.
func compressed(t testing.TB, policy, request, response string) (string, *filter.Encoder) {
	t.Helper()
	return compressedBy(t, compile(t, filter.NewCounters(start), policiesOf(t, policy)...), request, response)
}

func compressedBy(t testing.TB, chain *filter.Chain, request, response string) (string, *filter.Encoder) {
	t.Helper()
	r := begin(t, chain, request)
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	head.Reset(h1.RequestInfo{Head: strings.HasPrefix(request, "HEAD")})
	raw := strings.ReplaceAll(response, "\n", "\r\n")
	if n, err := head.Parse([]byte(raw), &limits); err != nil || n != len(raw) {
		t.Fatalf("parse %q: %d, %v", raw, n, err)
	}
	encoder := r.x.Compression.Encoder(&r.x, &head)
	plan := h1.ResponsePlan{Edits: r.x.ResponseEdits, Minor: 1}
	return string(plan.AppendTo(nil, &head)), encoder
}

func TestChoiceOfEncoding(t *testing.T) {
	const usual, only = `{"compression": {}}`, `{"compression": {"encodings": ["br", "gzip"]}}`
	tests := []struct{ name, policy, accept, want string }{
		{"browser", usual, "gzip, deflate, br, zstd", "zstd"},
		{"older browser", usual, "gzip, deflate, br", "br"},
		{"the order is the policy's", only, "gzip, br", "br"},
		{"weights come first", only, "br;q=0.2, gzip;q=0.8", "gzip"},
		{"a weight of nothing refuses", only, "br;q=0, gzip", "gzip"},
		{"any", only, "*", "br"},
		{"any but one", only, "*, br;q=0", "gzip"},
		{"none of any", only, "*;q=0", ""},
		{"old name", only, "x-gzip", "gzip"},
		{"in any case", only, "GZIP;Q=0.5", "gzip"},
		{"as it is, rather", only, "gzip;q=0.5, identity", ""},
		{"as it is, rather not", only, "gzip;q=0.5, identity;q=0.1", "gzip"},
		{"never as it is", only, "identity;q=0, gzip;q=0.001", "gzip"},
		{"others only", only, "deflate, compress", ""},
		{"a weight that is none", only, "gzip;q=x", ""},
		{"a weight above one", only, "gzip;q=7", ""},
		{"nothing", only, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			head, encoder := compressed(t, test.policy, get("/", "Accept-Encoding: "+test.accept), page("Transfer-Encoding: chunked"))
			got := ""
			if _, rest, ok := strings.Cut(head, "Content-Encoding: "); ok {
				got, _, _ = strings.Cut(rest, "\r\n")
			}
			if got != test.want || (encoder != nil) != (test.want != "") {
				t.Errorf("got %q, encoder %v; want %q", got, encoder != nil, test.want)
			}
			if !strings.Contains(head, "Vary: Accept-Encoding\r\n") {
				t.Errorf("the answer does not say what it depends on:\n%s", head)
			}
		})
	}
	if _, encoder := compressed(t, usual, get("/"), page("Transfer-Encoding: chunked")); encoder != nil {
		t.Error("encoded for a client that did not ask")
	}
}

// What is left alone is not touched at all, and does not depend on the client.
func TestNotCompressed(t *testing.T) {
	tests := []struct{ name, policy, response string }{
		{"encoded already", `{"compression": {}}`, page("Content-Encoding: br", "Content-Length: 9999")},
		{"a part", `{"compression": {}}`, "HTTP/1.1 206 Partial Content\nContent-Type: text/html\nContent-Range: bytes 0-1999/9999\nContent-Length: 2000\n\n"},
		{"no body", `{"compression": {}}`, "HTTP/1.1 204 No Content\nContent-Type: text/html\n\n"},
		{"not modified", `{"compression": {}}`, "HTTP/1.1 304 Not Modified\nContent-Type: text/html\nETag: \"a\"\n\n"},
		{"forbidden", `{"compression": {}}`, page("Cache-Control: public, No-Transform", "Content-Length: 9999")},
		{"a digest", `{"compression": {}}`, page("Content-Digest: sha-256=:AAAA:", "Content-Length: 9999")},
		{"small", `{"compression": {}}`, page("Content-Length: 1023")},
		{"smaller than asked", `{"compression": {"minBytes": 10000}}`, page("Content-Length: 9999")},
		{"a picture", `{"compression": {}}`, "HTTP/1.1 200 OK\nContent-Type: image/png\nContent-Length: 9999\n\n"},
		{"no type", `{"compression": {}}`, "HTTP/1.1 200 OK\nContent-Length: 9999\n\n"},
		{"another type", `{"compression": {"contentTypes": ["application/json"]}}`, page("Content-Length: 9999")},
		{"an excluded type", `{"compression": {"excludeContentTypes": ["text/html"]}}`, page("Content-Length: 9999")},
		{"an excluded range", `{"compression": {"contentTypes": ["*/*"], "excludeContentTypes": ["text/*"]}}`, page("Content-Length: 9999")},
		{"gRPC", `{"compression": {"contentTypes": ["*"]}}`, "HTTP/1.1 200 OK\nContent-Type: application/grpc+proto\nTransfer-Encoding: chunked\n\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			head, encoder := compressed(t, test.policy, get("/", "Accept-Encoding: gzip"), test.response)
			if encoder != nil || strings.Contains(head, "Vary") {
				t.Errorf("encoder %v:\n%s", encoder != nil, head)
			}
		})
	}
}

func TestCompressedHead(t *testing.T) {
	head, encoder := compressed(t, `{"compression": {"encodings": ["gzip"]}}`, get("/", "Accept-Encoding: gzip"),
		page("ETag: \"abc\"", "Accept-Ranges: bytes", "Vary: Origin", "Content-Length: 4096"))
	if encoder == nil {
		t.Fatal("not encoded")
	}
	for _, want := range []string{"ETag: W/\"abc\"\r\n", "Vary: Origin\r\n", "Vary: Accept-Encoding\r\n", "Content-Encoding: gzip\r\n"} {
		if strings.Count(head, want) != 1 {
			t.Errorf("want %q once:\n%s", want, head)
		}
	}
	for _, not := range []string{"Accept-Ranges", "ETag: \"abc\""} {
		if strings.Contains(head, not) {
			t.Errorf("%q is left:\n%s", not, head)
		}
	}
	head, _ = compressed(t, `{"compression": {}}`, get("/", "Accept-Encoding: gzip"), page("Vary: accept-encoding, Origin", "ETag: W/\"a\"", "Content-Length: 4096"))
	if strings.Count(strings.ToLower(head), "accept-encoding") != 1 || strings.Count(head, "ETag") != 1 {
		t.Errorf("said twice:\n%s", head)
	}
	request := "HEAD / HTTP/1.1\nHost: a.example\nAccept-Encoding: gzip\n\n"
	head, encoder = compressed(t, `{"compression": {}}`, request, page("Content-Length: 4096"))
	if encoder != nil || !strings.Contains(head, "Vary: Accept-Encoding") || !strings.Contains(head, "Content-Length: 4096") {
		t.Errorf("HEAD: encoder %v:\n%s", encoder != nil, head)
	}
}

// What went in comes out again, and each piece can be read as soon as it was
// written. Encoders are used again after whatever became of the last body.
func TestEncoders(t *testing.T) {
	decoders := map[string]func(io.Reader) io.Reader{
		"gzip": func(r io.Reader) io.Reader { d, _ := gzip.NewReader(r); return d },
		"br":   func(r io.Reader) io.Reader { return brotli.NewReader(r) },
		"zstd": func(r io.Reader) io.Reader {
			d, _ := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
			return d
		},
	}
	for name, decoder := range decoders {
		t.Run(name, func(t *testing.T) {
			chain := compile(t, filter.NewCounters(start), policiesOf(t, `{"compression": {"encodings": ["`+name+`"]}}`)...)
			for round := range 3 {
				_, encoder := compressedBy(t, chain, get("/", "Accept-Encoding: "+name), page("Transfer-Encoding: chunked"))
				var said string
				var sent bytes.Buffer
				for _, piece := range []string{"first ", "second ", strings.Repeat("long ", 20000)} {
					must.Get(encoder.Write([]byte(piece)))(t)
					sent.ReadFrom(&encoder.Output)
					said += piece
					got := make([]byte, len(said))
					if _, err := io.ReadFull(decoder(bytes.NewReader(sent.Bytes())), got); err != nil || string(got) != said {
						t.Fatalf("round %d: after %d bytes: %v", round, len(said), err)
					}
				}
				must.Do(t, encoder.Close())
				sent.ReadFrom(&encoder.Output)
				if got, err := io.ReadAll(decoder(&sent)); err != nil || string(got) != said {
					t.Fatalf("round %d: %d bytes at the end, %v", round, len(got), err)
				}
				// Given back at its end, and in the middle of a body.
				encoder.Release()
				_, half := compressedBy(t, chain, get("/", "Accept-Encoding: "+name), page("Transfer-Encoding: chunked"))
				_, _ = half.Write([]byte("half a body"))
				half.Release()
			}
		})
	}
}

// For any Accept-Encoding, an encoding is used only if the client named it, or any.
func FuzzAcceptEncoding(f *testing.F) {
	for _, seed := range []string{"gzip, br;q=0.5, *;q=0", "identity;q=0", "*", ";;q=,", "GZIP ; q = 1", "br;q=1e-3", "zstd;q=NaN"} {
		f.Add(seed)
	}
	chain := compile(f, filter.NewCounters(start), policiesOf(f, `{"compression": {}}`)...)
	f.Fuzz(func(t *testing.T, accept string) {
		if strings.ContainsFunc(accept, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(accept) > 4096 {
			t.Skip()
		}
		head, encoder := compressedBy(t, chain, get("/", "Accept-Encoding: "+accept), page("Transfer-Encoding: chunked"))
		if encoder == nil {
			return
		}
		encoder.Release()
		_, rest, _ := strings.Cut(head, "Content-Encoding: ")
		used, _, _ := strings.Cut(rest, "\r\n")
		if said := strings.ToLower(accept); !strings.Contains(said, used) && !strings.Contains(said, "*") {
			t.Errorf("%q got %s", accept, used)
		}
	})
}
