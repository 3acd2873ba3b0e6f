package h2_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// malformed are requests that no client of HTTP/2 makes: smuggling that hopes
// for a translation which does not look. Each gets a status, or
// its stream is reset.
var malformed = []struct {
	name  string
	lines []string
	want  string
}{
	{"a length of a body that is not there", []string{"content-length: 5"}, "400"},
	{"two lengths", []string{"content-length: 0", "content-length: 0"}, "400"},
	{"a length that is no number", []string{"content-length: +0"}, "400"},
	{"no authority", []string{":authority: -"}, "400"},
	{"an authority that is not the host", []string{"host: other.example"}, "PROTOCOL_ERROR"},
	{"two hosts", []string{":authority: -", "host: a.example", "host: a.example"}, "PROTOCOL_ERROR"},
	{"a user in the authority", []string{":authority: a@example.com"}, "PROTOCOL_ERROR"},
	{"a line break in a value", []string{"x-a: 1\r\nhost: other.example"}, "PROTOCOL_ERROR"},
	{"a line break in a name", []string{"x-a\r\nhost: x"}, "PROTOCOL_ERROR"},
	{"a line break in the path", []string{":path: / HTTP/1.1\r\nhost: other.example\r\n\r\n"}, "PROTOCOL_ERROR"},
	{"a space in the path", []string{":path: /a HTTP/1.1"}, "PROTOCOL_ERROR 400"},
	{"a fragment", []string{":path: /a#b"}, "400"},
	{"a path without slash", []string{":path: a"}, "PROTOCOL_ERROR"},
	{"an absolute path", []string{":path: http://other.example/"}, "PROTOCOL_ERROR"},
	{"a method with a space", []string{":method: GET / HTTP/1.1"}, "PROTOCOL_ERROR 400"},
	{"a method in small letters", []string{":method: get"}, "400"},
	{"a line break in the method", []string{":method: GET\r\n"}, "PROTOCOL_ERROR"},
	{"CONNECT", []string{":method: CONNECT", ":path: -", ":scheme: -"}, "400"},
	{"extended CONNECT", []string{":method: CONNECT", ":protocol: websocket"}, "PROTOCOL_ERROR"},
	{"transfer-encoding", []string{"transfer-encoding: chunked"}, "400"},
	{"connection", []string{"connection: x-real-ip"}, "400"},
	{"upgrade", []string{"upgrade: h2c"}, "400"},
	{"te", []string{"te: gzip"}, "400"},
	{"capital letters", []string{"X-A: 1"}, "PROTOCOL_ERROR"},
	{"a space before a value", []string{"x-a:  1"}, "PROTOCOL_ERROR"},
	{"a tab behind a value", []string{"x-a: 1\t"}, "PROTOCOL_ERROR"},
	{"underscores", []string{"x_forwarded_for: 1.2.3.4"}, "400"},
	{"a hidden slash", []string{":path: /a%2f..%2fb"}, "400"},
	{"a bad escape", []string{":path: /%zz"}, "400"},
	{"too many headers", strings.Split(strings.Repeat("x-a: 1\n", 120)+"x-b: 1", "\n"), "431"},
	{"too large", strings.Split(strings.Repeat("x-a: "+strings.Repeat("a", 10<<10)+"\n", 3)+"x-b: "+strings.Repeat("a", 10<<10), "\n"), "431"},
	{"too large a path", []string{":path: /" + strings.Repeat("a", 9<<10)}, "414"},
}

func TestMalformed(t *testing.T) {
	served := make(chan string, 100)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		served <- string(x.Head.Target())
		_ = x.Respond(200, "")
	})}, nil)
	for _, tt := range malformed {
		t.Run(tt.name, func(t *testing.T) {
			p := dial(t, s)
			must.Do(t, p.openLarge(1, tt.lines...))
			e := p.await(t, "an answer", func(e event) bool {
				return answered(1)(e) || e.kind == http2.FrameRSTStream
			})
			got := e.status
			if e.kind == http2.FrameRSTStream {
				got = e.code.String()
			}
			if !strings.Contains(tt.want, got) {
				t.Errorf("answered %s, want %s", got, tt.want)
			}
		})
	}
	if len(served) > 0 {
		t.Errorf("served %s", <-served)
	}
}

// The target is the path as it came, even where net/url would spell it differently.
func TestRawPath(t *testing.T) {
	served := make(chan string, 1)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		served <- string(x.Head.Target())
		_ = x.Respond(200, "")
	})}, nil)
	p := dial(t, s)
	for i, path := range []string{"/a|b", `/"x"`, "/{a}", "/%41%7e", "//x//", "/a/../b", "/?a=|&b=%zz", "/a?", "/??"} {
		must.Do(t, p.open(uint32(2*i+1), true, ":path: "+path))
		if got := bridgetest.Within(t, path, served); got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
}

// openLarge opens a stream with headers of any size.
func (p *peer) openLarge(stream uint32, lines ...string) error {
	block := p.head(lines...)
	first := block[:min(len(block), 16<<10)]
	rest := block[len(first):]
	err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(rest) == 0, EndStream: true})
	for err == nil && len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		err = p.WriteContinuation(stream, len(rest) == 0, part)
	}
	return err
}

// A body that is shorter or longer than its Content-Length is no whole body, and its stream
// is reset.
func TestFalseLengths(t *testing.T) {
	outcome := make(chan error, 3)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		_, _, err := x.Upload()
		outcome <- err
		_ = x.Respond(200, "")
	})}, nil)
	p := dial(t, s)
	for i, body := range []string{"", "1234", "123456"} {
		id := uint32(2*i + 1)
		must.Do(t, p.open(id, false, ":method: POST", "content-length: 5"))
		must.Do(t, p.WriteData(id, true, []byte(body)))
		e := p.await(t, "a reset", func(e event) bool { return e.stream == id && e.kind == http2.FrameRSTStream })
		if e.code != http2.ErrCodeProtocol {
			t.Errorf("%q is reset with %v", body, e.code)
		}
	}
	roundTrip(t, p)
	for len(outcome) > 0 {
		if <-outcome == nil {
			t.Error("a false length passes")
		}
	}
}

// A client that waits with its body gets 100 Continue once, and not at all when
// the handler does not read it.
func TestExpect(t *testing.T) {
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		if x.Head.ExpectContinue {
			t.Error("the origin sees Expect, and would answer it as well")
		}
		if string(x.Head.URI.Path) == "/unwanted" {
			_ = x.Respond(403, "")
			return
		}
		body, _, err := x.Upload()
		_ = x.Respond(200, fmt.Sprint(string(body), err))
	})}, nil)
	p := dial(t, s)
	goOn := func(stream uint32) func(event) bool {
		return func(e event) bool { return e.stream == stream && e.status == "100" }
	}
	must.Do(t, p.open(1, false, ":method: POST", ":path: /unwanted", "expect: 100-continue", "content-length: 5"))
	if e := p.await(t, "an answer", answered(1)); e.status != "403" {
		t.Errorf("answered %s", e.status)
	}
	for _, id := range []uint32{3, 5} {
		lines := []string{":method: POST", "expect: 100-continue", "content-length: 5"}
		if id == 5 {
			lines = lines[:2]
		}
		must.Do(t, p.open(id, false, lines...))
		p.await(t, "100", goOn(id))
		must.Do(t, p.WriteData(id, true, []byte("hello")))
		p.await(t, "an answer", func(e event) bool { return e.stream == id && e.data == "hello<nil>" })
		if n := p.count(goOn(id)); n != 1 {
			t.Errorf("told %d times to go on", n)
		}
	}
	if p.count(goOn(1)) != 0 {
		t.Error("told to go on with a body that nobody wants")
	}
}
