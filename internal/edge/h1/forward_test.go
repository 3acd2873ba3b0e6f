package h1_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/must"
)

var testPeer = h1.Peer{Address: "203.0.113.7", Proto: "https", Port: "443", Server: "edge-1"}

// peerLines are what testPeer adds, for a request to host a.
const peerLines = "X-Forwarded-For: 203.0.113.7\r\nX-Real-Ip: 203.0.113.7\r\nX-Forwarded-Host: a\r\n" +
	"X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Server: edge-1\r\n"

// made is an edit that is known to be good.
func made(edit h1.Edit, err error) h1.Edit {
	if err != nil {
		panic(err)
	}
	return edit
}

// trustedPeer is testPeer as a proxy whose word counts.
var trustedPeer = func() h1.Peer {
	peer := testPeer
	peer.Trusted = true
	return peer
}()

// forwardTests are requests as they come, and as they go to a backend.
var forwardTests = []struct {
	name string
	raw  string
	plan h1.ForwardPlan
	want string
}{
	{
		name: "as it came",
		raw:  "GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX-Mine: 1\r\n\r\n",
		plan: h1.ForwardPlan{Peer: testPeer},
		want: "GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX-Mine: 1\r\n" + peerLines + "\r\n",
	},
	{
		name: "spelled in one way",
		raw:  "GET http://A:80/x/../b/%7e?q HTTP/1.1\r\nX:1\r\nHost: A.:80\r\nY: \t2 \r\nContent-Length: 005\r\n\r\n",
		want: "GET /b/~?q HTTP/1.1\r\nHost: a:80\r\nX: 1\r\nY: 2\r\nContent-Length: 5\r\nX-Forwarded-Host: a:80\r\n\r\n",
	},
	{
		name: "HTTP/1.0 becomes 1.1",
		raw:  "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		plan: h1.ForwardPlan{Host: "backend:8080"},
		want: "GET / HTTP/1.1\r\nHost: backend:8080\r\n\r\n",
	},
	{
		name: "one connection only",
		raw: "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop, close\r\nKeep-Alive: 5\r\nX-Hop: 1\r\nProxy-Connection: x\r\n" +
			"Proxy-Authorization: Basic x\r\nProxy: http://evil\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nTE: gzip\r\nTrailer: X\r\nX-Stays: 1\r\n\r\n",
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Stays: 1\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "trailers wanted",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
	},
	{
		name: "no expectation",
		raw:  "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
		want: "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "chunked with trailers announced",
		raw:  "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\nTrailer: X-Sum\r\n\r\n",
		want: "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "framed anew",
		raw:  "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
		plan: h1.ForwardPlan{Framing: h1.Fixed, Length: 7},
		want: "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "target, host and close",
		raw:  "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
		plan: h1.ForwardPlan{Target: []byte("/b?c"), Host: "b", Close: true},
		want: "GET /b?c HTTP/1.1\r\nHost: b\r\nX-Forwarded-Host: a\r\nConnection: close\r\n\r\n",
	},
	{
		name: "WebSocket",
		raw:  "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
		plan: h1.ForwardPlan{Upgrade: true},
		want: "GET /chat HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: k\r\nX-Forwarded-Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	},
	{
		name: "WebSocket not wanted",
		raw:  "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		want: "GET /chat HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "h2c is never wanted",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
		plan: h1.ForwardPlan{Upgrade: true},
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: a\r\n\r\n",
	},
	{
		name: "edits",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-B: 1\r\nX-C: 1\r\nx-a: 2\r\nX.A: 3\r\n\r\n",
		plan: h1.ForwardPlan{Edits: []h1.Edit{
			made(h1.SetField("X-A", "new")), made(h1.AddField("X-B", "2")), made(h1.RemoveField("x-c")),
		}},
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-B: 1\r\nX-Forwarded-Host: a\r\nX-A: new\r\nX-B: 2\r\n\r\n",
	},
	{
		name: "edits in order",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		plan: h1.ForwardPlan{Edits: []h1.Edit{
			made(h1.SetField("X-A", "1")), made(h1.SetField("x-a", "2")), made(h1.AddField("X-A", "3")),
			made(h1.SetField("X-B", "1")), made(h1.RemoveField("X-B")),
		}},
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: a\r\nx-a: 2\r\nX-A: 3\r\n\r\n",
	},
	{
		name: "edits of what the edge says",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: spoofed\r\n\r\n",
		plan: h1.ForwardPlan{Peer: testPeer, Edits: []h1.Edit{
			made(h1.SetField("X-Forwarded-Proto", "http")), made(h1.RemoveField("X-Forwarded-Server")),
			made(h1.RemoveField("X-Forwarded-For")),
		}},
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Real-Ip: 203.0.113.7\r\nX-Forwarded-Host: a\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Proto: http\r\n\r\n",
	},
	{
		name: "untrusted peer",
		raw: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nx-forwarded-prefix: /x\r\n" +
			"X-SSL-Client-Verify: SUCCESS\r\nX-Forwarded-Host: evil\r\nX.Forwarded.For: 127.0.0.1\r\n\r\n",
		plan: h1.ForwardPlan{Peer: testPeer},
		want: "GET / HTTP/1.1\r\nHost: a\r\n" + peerLines + "\r\n",
	},
	{
		name: "trusted peer",
		raw: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\nForwarded: for=198.51.100.1\r\nX-Real-IP: 198.51.100.1\r\nX-Forwarded-Prefix: /x\r\n" +
			"X-Forwarded-For: 198.51.100.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Server: other\r\nX.Forwarded.For: 127.0.0.1\r\n\r\n",
		plan: h1.ForwardPlan{Peer: trustedPeer},
		want: "GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=198.51.100.1\r\nX-Real-IP: 198.51.100.1\r\nX-Forwarded-Prefix: /x\r\nX-Forwarded-Proto: https\r\n" +
			"X-Forwarded-For: 198.51.100.1, 198.51.100.2, 203.0.113.7\r\nX-Forwarded-Host: a\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Server: edge-1\r\n\r\n",
	},
	{
		name: "trusted peer that says nothing",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		plan: h1.ForwardPlan{Peer: trustedPeer},
		want: "GET / HTTP/1.1\r\nHost: a\r\n" + peerLines + "\r\n",
	},
	{
		name: "trusted peer without an address",
		raw:  "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n",
		plan: h1.ForwardPlan{Peer: h1.Peer{Trusted: true}},
		want: "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Host: a\r\n\r\n",
	},
}

func TestForward(t *testing.T) {
	for _, test := range forwardTests {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(test.plan.AppendTo(nil, parse(t, test.raw)))(t)
			if string(got) != test.want {
				t.Errorf("forwarded\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// proxyHeaders are those that a backend may trust because the edge sets them,
// or because a trusted proxy did.
var proxyHeaders = []string{
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip",
}

// TestConnectionCannotStrip lists each header that the edge sets, in all
// casings, in Connection (CVE-2021-32813, CVE-2024-45410, CVE-2026-29054).
func TestConnectionCannotStrip(t *testing.T) {
	lists := []string{"%s", "close, %s", "%s, keep-alive", " ,,%s ,", "x-a,%s,x-b"}
	kept := append([]string{"Host", "Content-Length", "Content-Type", "Cookie", "Authorization", "X-Edit"}, proxyHeaders...)
	edit := made(h1.SetField("X-Edit", "1"))
	for _, name := range kept {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", ".")} {
			for _, list := range lists {
				raw := "POST / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.ReplaceAll(list, "%s", spelling) +
					"\r\nCookie: c=1\r\nAuthorization: Basic x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n"
				plan := h1.ForwardPlan{Peer: testPeer, Edits: []h1.Edit{edit}}
				forwarded := must.Get(plan.AppendTo(nil, parse(t, raw)))(t)
				head := parse(t, string(forwarded))
				if _, ok := head.Find(name); !ok {
					t.Errorf("Connection: %s took %s away", strings.ReplaceAll(list, "%s", spelling), name)
				}
			}
		}
	}
}

// TestNoSpellingSpoofs sends each identity header in all spellings and
// multiplicities; from an untrusted peer no value of them survives.
func TestNoSpellingSpoofs(t *testing.T) {
	names := append([]string{
		"Forwarded", "X-Forwarded-Prefix", "X-Forwarded-Ssl", "X-Forwarded-Uri", "X-Forwarded-User", "X-SSL-Client-Cert", "X-SSL-Anything",
	}, proxyHeaders...)
	limits := h1.DefaultLimits()
	limits.Underscores = true
	for _, name := range names {
		spellings := []string{name, strings.ToLower(name), strings.ToUpper(name)}
		for _, separator := range []string{"_", ".", "~", "!", "'"} {
			spellings = append(spellings, strings.ReplaceAll(name, "-", separator), strings.Replace(strings.ToLower(name), "-", separator, 1))
		}
		for _, spelling := range spellings {
			for _, lines := range []string{
				spelling + ": spoofed\r\n",
				spelling + ":spoofed\r\n" + spelling + ": spoofed\r\n",
				spelling + ":\r\n" + spelling + ": spoofed\r\n",
				"Connection: " + spelling + "\r\n" + spelling + ": spoofed\r\n",
			} {
				var head h1.Head
				if _, err := head.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\n"+lines+"\r\n"), &limits); err != nil {
					t.Fatalf("%q: %v", lines, err)
				}
				plan := h1.ForwardPlan{Peer: testPeer}
				forwarded := must.Get(plan.AppendTo(nil, &head))(t)
				if strings.Contains(string(forwarded), "spoofed") {
					t.Errorf("%q survives as %q", lines, forwarded)
				}
			}
		}
	}
}

// TestBadEdits are changes that would break a message's framing.
func TestBadEdits(t *testing.T) {
	for _, test := range []struct{ name, value string }{
		{"", "x"}, {"X Y", "x"}, {"X:", "x"}, {"X\r\nY", "x"},
		{"X", "a\r\nY: b"}, {"X", "a\nb"}, {"X", "a\x00"},
		{"Host", "x"}, {"content-length", "5"}, {"Transfer-Encoding", "chunked"}, {"Connection", "close"},
		{"Upgrade", "h2c"}, {"TE", "x"}, {"Trailer", "x"}, {"Content_Length", "5"}, {"Expect", "100-continue"},
	} {
		if edit, err := h1.SetField(test.name, test.value); err == nil {
			t.Errorf("SetField(%q, %q) = %v", test.name, test.value, edit)
		}
	}
	edit := made(h1.SetField("X-User", ""))
	if _, err := edit.With("a\r\nX-Admin: yes"); err == nil {
		t.Error("With takes a line break")
	}
	if _, err := edit.With("alice"); err != nil {
		t.Errorf("With refuses a name: %v", err)
	}
}

// TestBadTargets are rewrites that would break the request line.
func TestBadTargets(t *testing.T) {
	head := parse(t, browserGet)
	for _, plan := range []h1.ForwardPlan{
		{Target: []byte("/a b")}, {Target: []byte("/a\r\nX: y")}, {Target: []byte{}}, {Target: []byte("/é")},
		{Host: "a\r\nX: y"}, {Host: "a b"},
	} {
		if forwarded, err := plan.AppendTo(nil, head); err == nil {
			t.Errorf("target %q, host %q: forwarded %q", plan.Target, plan.Host, forwarded)
		}
	}
}

func TestAsked(t *testing.T) {
	head := parse(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	plan := h1.ForwardPlan{Upgrade: true}
	if asked := plan.RequestInfo(head); asked.Head || string(asked.Upgrade) != "websocket" {
		t.Errorf("asked %+v", asked)
	}
	plan.Upgrade = false
	if asked := plan.RequestInfo(head); asked.Upgrade != nil {
		t.Errorf("asked %+v without forwarding Upgrade", asked)
	}
	if asked := plan.RequestInfo(parse(t, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")); !asked.Head {
		t.Errorf("asked %+v with HEAD", asked)
	}
}

func TestComposer(t *testing.T) {
	var composer h1.Composer
	composer.Start([]byte("kept"), "POST", "/a?b", "Example.com")
	composer.Field("user-agent", "x")
	composer.Field("te", "trailers")
	composer.Field("content-length", "99")
	composer.Field("host", "evil")
	raw, err := composer.End(h1.Fixed, 5)
	want := "keptPOST /a?b HTTP/1.1\r\nHost: Example.com\r\nuser-agent: x\r\nte: trailers\r\nContent-Length: 5\r\n\r\n"
	if err != nil || string(raw) != want {
		t.Fatalf("composed %q, %v, want %q", raw, err, want)
	}
	head := parse(t, string(raw[4:]))
	if string(head.URI.Host) != "example.com" || head.Framing != h1.Fixed || head.Length != 5 || !head.AcceptsTrailers {
		t.Errorf("read again:\n%s", describe(head))
	}
}

// TestComposerSmuggling is what HTTP/2 can carry and HTTP/1.1 must not get:
// the names and values of HTTP/2 may hold any byte.
func TestComposerSmuggling(t *testing.T) {
	tests := []struct{ name, method, target, authority, field, value string }{
		{"H2.TE", "POST", "/", "a", "transfer-encoding", "chunked"},
		{"line break in a value", "POST", "/", "a", "x", "y\r\ntransfer-encoding: chunked"},
		{"LF in a value", "POST", "/", "a", "x", "y\ntransfer-encoding: chunked"},
		{"line break in a name", "POST", "/", "a", "x: y\r\ntransfer-encoding", "chunked"},
		{"colon in a name", "POST", "/", "a", "transfer-encoding:x", "chunked"},
		{"empty name", "POST", "/", "a", "", "x"},
		{"pseudo-header", "POST", "/", "a", ":path", "/admin"},
		{"line break in the method", "GET / HTTP/1.1\r\nX:", "/", "a", "x", "y"},
		{"space in the method", "GET /admin", "/", "a", "x", "y"},
		{"line break in the path", "GET", "/ HTTP/1.1\r\nHost: b\r\n\r\n", "a", "x", "y"},
		{"space in the path", "GET", "/admin HTTP/1.1", "a", "x", "y"},
		{"empty path", "GET", "", "a", "x", "y"},
		{"line break in the authority", "GET", "/", "a\r\nX: y", "x", "y"},
		{"connection", "GET", "/", "a", "connection", "close"},
		{"upgrade", "GET", "/", "a", "upgrade", "websocket"},
		{"te other than trailers", "GET", "/", "a", "te", "gzip"},
		{"null in a value", "GET", "/", "a", "x", "\x00"},
	}
	limits := h1.DefaultLimits()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var composer h1.Composer
			composer.Start(nil, test.method, test.target, test.authority)
			composer.Field(test.field, test.value)
			raw, err := composer.End(h1.NoBody, 0)
			if err == nil {
				t.Errorf("composed %q", raw)
			}
		})
	}
	// What is only wrong as a request is found when it is read.
	for _, test := range []struct{ target, authority string }{{"admin", "a"}, {"/", ""}, {"/a%2fb", "a"}, {"/#x", "a"}, {"/", "a@b"}} {
		var composer h1.Composer
		composer.Start(nil, "GET", test.target, test.authority)
		raw := must.Get(composer.End(h1.NoBody, 0))(t)
		var head h1.Head
		if n, err := head.Parse(raw, &limits); err == nil {
			t.Errorf("%q is accepted: %d", raw, n)
		}
	}
}

// TestForwardAllocates nothing: neither reading nor writing heads may.
func TestForwardAllocates(t *testing.T) {
	limits := h1.DefaultLimits()
	raw, reply := []byte(browserGet), []byte(backendReply)
	var head h1.Head
	var response h1.ResponseHead
	buf := make([]byte, 0, 4096)
	plan := h1.ForwardPlan{Peer: testPeer, Edits: []h1.Edit{made(h1.SetField("X-A", "1"))}}
	answer := h1.ResponsePlan{Minor: 1}
	allocs := testing.AllocsPerRun(100, func() {
		head.Reset()
		if _, err := head.Parse(raw, &limits); err != nil {
			t.Fatal(err)
		}
		if _, err := plan.AppendTo(buf, &head); err != nil {
			t.Fatal(err)
		}
		response.Reset(plan.RequestInfo(&head))
		if _, err := response.Parse(reply, &limits); err != nil {
			t.Fatal(err)
		}
		answer.AppendTo(buf, &response)
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a request and its response", allocs)
	}
	if id, _ := head.Get(normalize.FieldCookie); len(id) == 0 {
		t.Error("the cookie is gone")
	}
}
