package h1_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/must"
)

func parseResponse(raw string, asked h1.RequestInfo) (*h1.ResponseHead, int, error) {
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	head.Reset(asked)
	n, err := head.Parse([]byte(raw), &limits)
	return &head, n, err
}

var toHead = h1.RequestInfo{Head: true}

var toWebSocket = h1.RequestInfo{Upgrade: []byte("websocket")}

// replies are accepted; want is status, framing, length, whether the
// connection can be used again, and the reason.
var replies = []struct {
	name  string
	raw   string
	asked h1.RequestInfo
	want  string
}{
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.RequestInfo{}, "200 fixed 5 reusable OK"},
	{"length 0", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "200 fixed 0 reusable OK"},
	{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", h1.RequestInfo{}, "200 chunked -1 reusable OK"},
	{"until close", "HTTP/1.1 200 OK\r\n\r\n", h1.RequestInfo{}, "200 until-close -1 - OK"},
	{"close", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", h1.RequestInfo{}, "200 fixed 5 - OK"},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", h1.RequestInfo{}, "200 fixed 5 - OK"},
	{"HTTP/1.0 keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", h1.RequestInfo{}, "200 fixed 5 reusable OK"},
	{"HTTP/1.0 until close", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", h1.RequestInfo{}, "200 until-close -1 - OK"},
	{"to HEAD with length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", toHead, "200 none 5 reusable OK"},
	{"to HEAD with chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", toHead, "200 none -1 reusable OK"},
	{"to HEAD with nothing", "HTTP/1.1 200 OK\r\n\r\n", toHead, "200 none -1 reusable OK"},
	{"204", "HTTP/1.1 204 No Content\r\n\r\n", h1.RequestInfo{}, "204 none -1 reusable No Content"},
	{"204 with length 0", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "204 none 0 reusable No Content"},
	{"204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", h1.RequestInfo{}, "204 none 5 - No Content"},
	{"204 with chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", h1.RequestInfo{}, "204 none -1 - No Content"},
	{"304 with length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", h1.RequestInfo{}, "304 none 5 reusable Not Modified"},
	{"100", "HTTP/1.1 100 Continue\r\n\r\n", h1.RequestInfo{}, "100 none -1 reusable Continue"},
	{"103", "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", h1.RequestInfo{}, "103 none -1 reusable Early Hints"},
	{"101", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n", toWebSocket, "101 none -1 - Switching Protocols"},
	{"no reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "200 fixed 0 reusable "},
	{"no reason, no space", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "200 fixed 0 reusable "},
	{"reason outside ASCII", "HTTP/1.1 200 D\xe9j\xe0 vu\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "200 fixed 0 reusable D\xe9j\xe0 vu"},
	{"status 999", "HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "999 fixed 0 reusable Denied"},
	{"underscore", "HTTP/1.1 200 OK\r\nMy_Header: x\r\nContent-Length: 0\r\n\r\n", h1.RequestInfo{}, "200 fixed 0 reusable OK"},
}

func describeResponse(head *h1.ResponseHead) string {
	framing := map[h1.Framing]string{h1.NoBody: "none", h1.Fixed: "fixed", h1.Chunked: "chunked", h1.UntilClose: "until-close"}
	reusable := "-"
	if head.Reusable {
		reusable = "reusable"
	}
	return fmt.Sprintf("%d %s %d %s %s", head.Status, framing[head.Framing], head.Length, reusable, head.Reason())
}

func TestResponses(t *testing.T) {
	limits := h1.DefaultLimits()
	for _, test := range replies {
		t.Run(test.name, func(t *testing.T) {
			head, n, err := parseResponse(test.raw+"HTTP/1.1 ", test.asked)
			if err != nil || n != len(test.raw) {
				t.Fatalf("Parse(%q) = %d, %v", test.raw, n, err)
			}
			if got := describeResponse(head); got != test.want {
				t.Errorf("Parse(%q) is %q, want %q", test.raw, got, test.want)
			}
			if interim := head.Status == 100 || head.Status == 103; head.Interim() != interim {
				t.Errorf("Interim() is %v for %d", head.Interim(), head.Status)
			}
			head.Reset(test.asked)
			for have := 1; have <= len(test.raw); have++ {
				if n, err := head.Parse(bytes.Clone([]byte(test.raw[:have])), &limits); err != nil || (n > 0) != (have == len(test.raw)) {
					t.Fatalf("dripped, %d bytes: %d, %v", have, n, err)
				}
			}
			if got := describeResponse(head); got != test.want {
				t.Errorf("dripped, it is %q, want %q", got, test.want)
			}
		})
	}
}

// TestBadResponses are what a backend must not be believed.
func TestBadResponses(t *testing.T) {
	tests := []struct {
		name  string
		raw   string
		asked h1.RequestInfo
		want  error
	}{
		{"not HTTP", "SSH-2.0-OpenSSH_9.6", h1.RequestInfo{}, h1.ErrStatusLine},
		{"not HTTP after all", "HTTP/1.x 200 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"HTTP/0.9", "<html>", h1.RequestInfo{}, h1.ErrStatusLine},
		{"two spaces", "HTTP/1.1  200 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"status below 100", "HTTP/1.1 099 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"signed status", "HTTP/1.1 +20 OK\r\n\r\n", h1.RequestInfo{}, h1.ErrStatusLine},
		{"null in the reason", "HTTP/1.1 200 O\x00K\r\n\r\n", h1.RequestInfo{}, h1.ErrControl},
		{"bare CR in the reason", "HTTP/1.1 200 OK\rX: y\r\n\r\n", h1.RequestInfo{}, h1.ErrBareCR},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", h1.RequestInfo{}, h1.ErrBareLF},
		{"folded line", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", h1.RequestInfo{}, h1.ErrFold},
		{"space before the colon", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", h1.RequestInfo{}, h1.ErrFieldName},
		{"response splitting", "HTTP/1.1 200 OK\r\nLocation: /\rSet-Cookie: a=b\r\n\r\n", h1.RequestInfo{}, h1.ErrBareCR},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", h1.RequestInfo{}, h1.ErrLengthTwice},
		{"list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5,5\r\n\r\n", h1.RequestInfo{}, h1.ErrLength},
		{"length and chunked", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", h1.RequestInfo{}, h1.ErrTwoLengths},
		{"length and chunked to HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", toHead, h1.ErrTwoLengths},
		{"gzip and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", h1.RequestInfo{}, h1.ErrCoding},
		{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", h1.RequestInfo{}, h1.ErrCodingVersion},
		{"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", h1.RequestInfo{}, h1.ErrUnexpectedSwitch},
		{"101 unasked, to nothing", "HTTP/1.1 101 Switching Protocols\r\n\r\n", h1.RequestInfo{}, h1.ErrUnexpectedSwitch},
		{"101 without Connection", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", toWebSocket, h1.ErrUnexpectedSwitch},
		{"101 to something else", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", toWebSocket, h1.ErrUnexpectedSwitch},
		{"101 to nothing", "HTTP/1.1 101 Switching Protocols\r\n\r\n", toWebSocket, h1.ErrUnexpectedSwitch},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 33<<10), h1.RequestInfo{}, h1.ErrHeadTooLarge},
		{"too many headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 101) + "\r\n", h1.RequestInfo{}, h1.ErrTooManyFields},
		{"length announced as trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: content-length\r\n\r\n", h1.RequestInfo{}, h1.ErrTrailerName},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if head, n, err := parseResponse(test.raw, test.asked); n != 0 || !errors.Is(err, test.want) {
				t.Errorf("Parse(%.100q) = %d, %v, %s, want %v", test.raw, n, err, describeResponse(head), test.want)
			}
		})
	}
}

// replyTests are responses as they come, and as they go to a client.
var replyTests = []struct {
	name  string
	raw   string
	asked h1.RequestInfo
	plan  h1.ResponsePlan
	want  string
}{
	{
		name: "as it came",
		raw:  "HTTP/1.1 200 OK\r\nContent-Length: 05\r\nX:y\r\nEtag: \"a\"\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 200 OK\r\nX: y\r\nEtag: \"a\"\r\nContent-Length: 5\r\n\r\n",
	},
	{
		name: "the backend's connection is its own",
		raw: "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nProxy-Connection: close\r\n" +
			"Upgrade: h2c\r\nContent-Length: 5\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
	},
	{
		name: "Connection cannot take away a cookie",
		raw:  "HTTP/1.1 200 OK\r\nConnection: Set-Cookie, content-length\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\n",
	},
	{
		name: "edits",
		raw:  "HTTP/1.1 200 OK\r\nServer: nginx\r\nX-Powered-By: PHP\r\nserver: again\r\nX-Frame-Options: SAMEORIGIN\r\nContent-Length: 0\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1, Edits: []h1.Edit{
			made(h1.SetField("Server", "slipway")), made(h1.AddField("X-Frame-Options", "DENY")), made(h1.RemoveField("X-Powered-By")),
		}},
		want: "HTTP/1.1 200 OK\r\nX-Frame-Options: SAMEORIGIN\r\nContent-Length: 0\r\nServer: slipway\r\nX-Frame-Options: DENY\r\n\r\n",
	},
	{
		name: "chunked with trailers announced",
		raw:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n",
	},
	{
		name: "chunked to HTTP/1.0",
		raw:  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
		plan: h1.ResponsePlan{Framing: h1.UntilClose},
		want: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
	},
	{
		name: "until close becomes chunked",
		raw:  "HTTP/1.0 200 OK\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1, Framing: h1.Chunked},
		want: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	},
	{
		name: "HTTP/1.0 is told that it can stay",
		raw:  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
	},
	{
		name: "close",
		raw:  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1, Close: true},
		want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
	},
	{
		name: "no body for 204",
		raw:  "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 204 No Content\r\n\r\n",
	},
	{
		name:  "length to HEAD",
		raw:   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		asked: toHead,
		plan:  h1.ResponsePlan{Minor: 1},
		want:  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
	},
	{
		name: "switching protocols",
		raw:  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n", asked: toWebSocket,
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	},
	{
		name: "early hints",
		raw:  "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1, Close: true},
		want: "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
	},
	{
		name: "date kept",
		raw:  "HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n",
		plan: h1.ResponsePlan{Minor: 1},
		want: "HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n",
	},
}

func TestReply(t *testing.T) {
	for _, test := range replyTests {
		t.Run(test.name, func(t *testing.T) {
			head, _, err := parseResponse(test.raw, test.asked)
			must.Do(t, err)
			if got := string(test.plan.AppendTo(nil, head)); got != test.want {
				t.Errorf("replied\n%q\nwant\n%q", got, test.want)
			}
		})
	}
}

func TestReplyFraming(t *testing.T) {
	tests := []struct {
		name     string
		request  string
		response string
		framing  h1.Framing
		reuse    bool
	}{
		{"length", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.Fixed, true},
		{"client closes", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.Fixed, false},
		{"until close", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", h1.Chunked, true},
		{"until close for HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", h1.UntilClose, false},
		{"chunked for HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", h1.UntilClose, false},
		{"length for HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", h1.Fixed, true},
	}
	for _, test := range tests {
		response, _, err := parseResponse(test.response, h1.RequestInfo{})
		must.Do(t, err)
		framing, reuse := h1.ResponseFraming(parse(t, test.request), response)
		if framing != test.framing || reuse != test.reuse {
			t.Errorf("%s: %d, %v, want %d, %v", test.name, framing, reuse, test.framing, test.reuse)
		}
	}
}

// FuzzResponse holds a response's head to this: what is written for a client
// is read again the same.
func FuzzResponse(f *testing.F) {
	for _, test := range replies {
		f.Add([]byte(test.raw), test.asked.Head)
	}
	f.Fuzz(func(t *testing.T, raw []byte, toHead bool) {
		head, n, err := parseResponse(string(raw), h1.RequestInfo{Head: toHead})
		if err != nil || n == 0 {
			return
		}
		plan := h1.ResponsePlan{Minor: 1}
		written := plan.AppendTo(nil, head)
		again, m, err := parseResponse(string(written), h1.RequestInfo{Head: toHead})
		if err != nil || m != len(written) {
			t.Fatalf("%q became %q: %d, %v", raw, written, m, err)
		}
		if again.Status != head.Status || again.Framing != head.Framing || !bytes.Equal(again.Reason(), head.Reason()) {
			t.Fatalf("%q became %q: %s, was %s", raw, written, describeResponse(again), describeResponse(head))
		}
		for i := range again.Len() {
			if id := again.ID(i); id.ConnectionOnly() && id != normalize.FieldConnection {
				t.Fatalf("%q passed on %s", raw, again.Name(i))
			}
		}
	})
}
