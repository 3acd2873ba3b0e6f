package h1_test

import (
	"bytes"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/must"
)

// requests are accepted; their parts are in want, as describe prints it, in
// part.
var requests = []struct {
	name string
	raw  string
	want []string
}{
	{"browser", browserGet, []string{
		"GET /shop/items/4711?ref=home&page=2 1.1\n",
		"host shop.example.com authority shop.example.com path /shop/items/4711 query ref=home&page=2\n",
		"keep true",
		"Sec-Fetch-Mode: navigate\n",
	}},
	{"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", []string{"GET / 1.0\nhost  authority  path /", "keep false"}},
	{"HTTP/1.0 keep-alive", "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", []string{"keep true"}},
	{"close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", []string{"keep false"}},
	{"close wins", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, , Close\r\n\r\n", []string{"keep false"}},
	{"close in a second line", "GET / HTTP/1.1\r\nHost: a\r\nConnection: te\r\nConnection: close\r\n\r\n", []string{"keep false"}},
	{"empty line before", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", []string{"GET / 1.1\n"}},
	{"white space around a value", "GET / HTTP/1.1\r\nHost:  \t a\t \r\nX:y\r\nY:\r\nZ: \t \r\n\r\n",
		[]string{"authority a ", "X: y\n", "Y: \n", "Z: \n"}},
	{"tab and bytes outside ASCII in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\tb \xff\xfe é\r\n\r\n", []string{"X: a\tb \xff\xfe é\n"}},
	{"odd but valid name", "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+.^`|~1: y\r\n\r\n", []string{"!#$%&'*+.^`|~1: y\n"}},
	{"length", "POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 0012\r\n\r\n", []string{"framing 2 12 "}},
	{"length 0", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", []string{"framing 2 0 "}},
	{"longest length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n", []string{"framing 2 9223372036854775807 "}},
	{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", []string{"framing 3 "}},
	{"no body", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", []string{"framing 1 0"}},
	{"expects 100", "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n", []string{"continue true"}},
	{"expects 100 without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", []string{"continue false"}},
	{"HTTP/1.0 expects nothing", "PUT / HTTP/1.0\r\nHost: a\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", []string{"continue false"}},
	{"trailers", "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=0.5, Trailers\r\n\r\n", []string{"trailers true"}},
	{"absolute form", "GET http://A.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n", []string{"authority a.example path /x query y\n"}},
	{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", []string{"path * "}},
	{"WebDAV", "VERSION-CONTROL /a HTTP/1.1\r\nHost: a\r\n\r\n", []string{"VERSION-CONTROL /a"}},
	{"WebSocket", "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n", []string{`upgrade "WebSocket"`}},
	{"SPDY for exec", "POST /exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", []string{`upgrade ""`}},
	{"upgrade without Connection", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", []string{`upgrade ""`}},
	{"upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", []string{`upgrade ""`}},
	{"upgrade to one of two", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", []string{`upgrade ""`}},
	{"upgrade twice", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: foo\r\n\r\n", []string{`upgrade ""`}},
	{"h2c smuggling", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", []string{`upgrade ""`}},
	{"upgrade to TLS", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n", []string{`upgrade ""`}},
	{"most headers", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 99) + "\r\n", []string{"X: y\n"}},
	{"trailer announced", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n", []string{"Trailer: X-Checksum\n"}},
}

func TestRequests(t *testing.T) {
	for _, test := range requests {
		t.Run(test.name, func(t *testing.T) {
			got := describe(parse(t, test.raw))
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q says\n%s\nwithout %q", test.raw, got, want)
				}
			}
		})
	}
}

// TestRequestsInPieces cuts each request in two at every place, and drips it
// byte by byte, with another message behind it.
func TestRequestsInPieces(t *testing.T) {
	limits := h1.DefaultLimits()
	for _, test := range requests {
		want := describe(parse(t, test.raw))
		raw := []byte(test.raw + "GET /next HTTP/1.1\r\n")
		var head h1.Head
		for at := range raw {
			head.Reset()
			n, err := parseSplit(&head, raw, at, &limits)
			if n != len(test.raw) || err != nil || describe(&head) != want {
				t.Fatalf("%s, cut at %d: %d, %v\n%s\nwant\n%s", test.name, at, n, err, describe(&head), want)
			}
		}
		head.Reset()
		for have := 1; have <= len(test.raw); have++ {
			n, err := head.Parse(bytes.Clone(raw[:have]), &limits)
			if err != nil || (n > 0) != (have == len(test.raw)) {
				t.Fatalf("%s, %d bytes: %d, %v", test.name, have, n, err)
			}
		}
		if describe(&head) != want {
			t.Fatalf("%s, dripped:\n%s\nwant\n%s", test.name, describe(&head), want)
		}
	}
}

func TestFields(t *testing.T) {
	head := parse(t, "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nCookie: c=1\r\nx-one: 2\r\nCookie: d=2\r\n\r\n")
	if value, ok := head.Get(normalize.FieldCookie); !ok || string(value) != "c=1" {
		t.Errorf("Get(Cookie) = %q, %v", value, ok)
	}
	if value, ok := head.Get(normalize.FieldOrigin); ok {
		t.Errorf("Get(Origin) = %q", value)
	}
	if value, ok := head.Find("x-ONE"); !ok || string(value) != "1" {
		t.Errorf("Find(x-ONE) = %q, %v", value, ok)
	}
	if value, ok := head.Find("X-Two"); ok {
		t.Errorf("Find(X-Two) = %q", value)
	}
	headers := h1.Headers{Fields: &head.Fields}
	for i, want := range []string{"1", "2"} {
		if value, ok := headers.Value("X-One", i); !ok || value != want {
			t.Errorf("Value(X-One, %d) = %q, %v", i, value, ok)
		}
	}
	if value, ok := headers.Value("X-One", 2); ok {
		t.Errorf("Value(X-One, 2) = %q", value)
	}
}

// TestMethods pins the methods that the rest of the edge compares by number.
func TestMethods(t *testing.T) {
	for name, want := range map[string]h1.Method{
		"GET": h1.MethodGet, "HEAD": h1.MethodHead, "POST": h1.MethodPost, "PUT": h1.MethodPut, "DELETE": h1.MethodDelete,
		"OPTIONS": h1.MethodOptions, "PATCH": h1.MethodPatch, "TRACE": h1.MethodTrace, "PROPFIND": h1.MethodOther, "GETS": h1.MethodOther,
	} {
		if head := parse(t, name+" / HTTP/1.1\r\nHost: a\r\n\r\n"); head.MethodID != want {
			t.Errorf("%s is method %d, want %d", name, head.MethodID, want)
		}
	}
}

func TestUnderscoresAllowed(t *testing.T) {
	limits := h1.DefaultLimits()
	limits.Underscores = true
	raw := "GET / HTTP/1.1\r\nHost: a\r\nMy_Header: b\r\nX_Forwarded_For: 127.0.0.1\r\nContent_Length: 5\r\n\r\n"
	var head h1.Head
	must.Get(head.Parse([]byte(raw), &limits))(t)
	plan := h1.ForwardPlan{Peer: h1.Peer{Trusted: true}}
	forwarded := must.Get(plan.AppendTo(nil, &head))(t)
	want := "GET / HTTP/1.1\r\nHost: a\r\nMy_Header: b\r\nX-Forwarded-Host: a\r\n\r\n"
	if string(forwarded) != want {
		t.Errorf("forwarded %q, want %q", forwarded, want)
	}
}

func TestHazardsAllowed(t *testing.T) {
	limits := h1.DefaultLimits()
	limits.Hazards = normalize.EncodedSlash
	var head h1.Head
	must.Get(head.Parse([]byte("GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"), &limits))(t)
	if head.URI.Hazards != normalize.EncodedSlash || string(head.URI.Path) != "/a%2Fb" {
		t.Errorf("path %q, hazards %b", head.URI.Path, head.URI.Hazards)
	}
	if err := head.URI.Hazards.Check(normalize.NoHazard); err != normalize.ErrEncodedSlash {
		t.Errorf("a route that does not allow it says %v", err)
	}
}
