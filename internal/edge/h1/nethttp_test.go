package h1_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// This file holds h1 to the promise that what it accepts, net/http reads the
// same way. net/http stands for the backends: if it read another target or
// another length, a request could be smuggled past the edge.

// readWithNetHTTP reads a request and returns it with what comes behind it.
func readWithNetHTTP(t *testing.T, raw string) (*http.Request, io.Reader) {
	t.Helper()
	reader := bufio.NewReader(strings.NewReader(raw))
	request, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", raw, err)
	}
	return request, reader
}

// compare reads raw with h1 and, if h1 accepts it, with net/http, and fails
// when they differ. It reports whether h1 accepted.
func compare(t *testing.T, raw []byte) bool {
	t.Helper()
	limits := h1.DefaultLimits()
	var head h1.Head
	n, err := head.Parse(raw, &limits)
	if err != nil || n == 0 {
		return false
	}
	var body h1.Body
	body.Reset(head.Framing, head.Length, true, &limits)
	data, used, err := readBody(&body, raw[n:], len(raw)+1)
	if err != nil {
		return false
	}
	// net/http does not let an empty line before a request pass.
	wire := strings.TrimPrefix(string(raw[:n+used]), "\r\n")
	request, rest := readWithNetHTTP(t, wire+"next")
	if request.Method != string(head.Method()) || request.RequestURI != string(head.Target()) {
		t.Fatalf("%q: net/http reads %s %s, we read %s %s", wire, request.Method, request.RequestURI, head.Method(), head.Target())
	}
	host, _, err := normalize.Host(nil, []byte(request.Host))
	if err != nil && request.Host != "" || !bytes.Equal(host, head.URI.Host) {
		t.Fatalf("%q: net/http reads the host %q, we read %q", wire, request.Host, head.URI.Host)
	}
	length := map[h1.Framing]int64{h1.NoBody: 0, h1.Fixed: head.Length, h1.Chunked: -1}[head.Framing]
	if request.ContentLength != length || (len(request.TransferEncoding) > 0) != (head.Framing == h1.Chunked) {
		t.Fatalf("%q: net/http reads the length %d %v, we read %d", wire, request.ContentLength, request.TransferEncoding, length)
	}
	got, err := io.ReadAll(request.Body)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%q: net/http reads the body %q, %v, we read %q", wire, got, err, data)
	}
	if after, _ := io.ReadAll(rest); string(after) != "next" {
		t.Fatalf("%q: net/http leaves %q for the next request", wire, after)
	}
	compareFields(t, &head, request)
	return true
}

// compareFields compares all headers that net/http keeps.
func compareFields(t *testing.T, head *h1.Head, request *http.Request) {
	t.Helper()
	seen := http.Header{}
	for i := range head.Len() {
		seen.Add(string(head.Name(i)), string(head.Value(i)))
	}
	for name, values := range request.Header {
		if fmt.Sprint(seen.Values(name)) != fmt.Sprint(values) {
			t.Fatalf("net/http reads %s: %q, we read %q", name, values, seen.Values(name))
		}
	}
	for name := range seen {
		switch _, kept := request.Header[name]; {
		case kept, name == "Host", name == "Content-Length", name == "Transfer-Encoding", name == "Trailer":
		default:
			t.Fatalf("net/http does not read %s: %q", name, seen.Values(name))
		}
	}
	if request.Close == head.KeepAlive {
		t.Fatalf("net/http wants to close: %v, we keep: %v", request.Close, head.KeepAlive)
	}
}

func TestSameAsNetHTTP(t *testing.T) {
	for _, test := range requests {
		raw := test.raw
		if strings.Contains(raw, "hunked\r\n") {
			raw += "5\r\nhello\r\n0\r\n\r\n"
		}
		if strings.Contains(raw, "ONE") || strings.Contains(raw, "0012") {
			raw += "hello, world"
		}
		accepted := compare(t, []byte(raw))
		if !accepted && !strings.Contains(raw, "92233") && !strings.Contains(raw, "Content-Length: 1\r\n") {
			t.Errorf("%s: not accepted with its body", test.name)
		}
	}
}

// FuzzHead is the differential fuzz of whole requests.
func FuzzHead(f *testing.F) {
	for _, test := range requests {
		f.Add([]byte(test.raw))
	}
	for _, attack := range attacks {
		if len(attack.raw) < 1000 {
			f.Add([]byte(attack.raw))
		}
	}
	for _, test := range chunkTests {
		if len(test.raw) < 1000 {
			f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + test.raw))
		}
	}
	limits := h1.DefaultLimits()
	f.Fuzz(func(t *testing.T, raw []byte) {
		compare(t, raw)
		// However the bytes are cut, the result is the same.
		var whole, cut h1.Head
		n, err := whole.Parse(raw, &limits)
		at := len(raw) / 2
		m, errCut := parseSplit(&cut, raw, at, &limits)
		if n != m || (err == nil) != (errCut == nil) {
			t.Fatalf("%q: %d, %v at once; %d, %v cut at %d", raw, n, err, m, errCut, at)
		}
		if n > 0 && describe(&whole) != describe(&cut) {
			t.Fatalf("%q:\n%s\ncut at %d:\n%s", raw, describe(&whole), at, describe(&cut))
		}
	})
}

// FuzzForward holds forwarding to this: what is written is accepted again, and
// has the same method, resource and body; doing it twice changes nothing.
func FuzzForward(f *testing.F) {
	for _, test := range requests {
		f.Add([]byte(test.raw), false)
		f.Add([]byte(test.raw), true)
	}
	limits := h1.DefaultLimits()
	wide := limits
	wide.Fields, wide.HeadBytes, wide.TargetBytes = 200, 128<<10, 64<<10
	f.Fuzz(func(t *testing.T, raw []byte, trusted bool) {
		var head, again h1.Head
		if n, err := head.Parse(raw, &limits); n == 0 || err != nil {
			return
		}
		plan := h1.ForwardPlan{Peer: h1.Peer{Trusted: trusted, Address: "192.0.2.1", Proto: "http", Port: "80", Server: "edge"}}
		if head.URI.Authority == nil {
			plan.Host = "backend"
		}
		written, err := plan.AppendTo(nil, &head)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		n, err := again.Parse(written, &wide)
		if err != nil || n != len(written) {
			t.Fatalf("%q became %q: %d, %v", raw, written, n, err)
		}
		if !bytes.Equal(again.Method(), head.Method()) || !bytes.Equal(again.URI.Path, head.URI.Path) ||
			!bytes.Equal(again.URI.Query, head.URI.Query) || again.URI.HasQuery != head.URI.HasQuery ||
			again.Framing != head.Framing || again.Length != head.Length || again.URI.Rewritten {
			t.Fatalf("%q became %q:\n%s\nwas\n%s", raw, written, describe(&again), describe(&head))
		}
		checkForwarded(t, &again, trusted)
	})
}

// checkForwarded looks for what must never, or always, reach a backend.
func checkForwarded(t *testing.T, head *h1.Head, trusted bool) {
	t.Helper()
	counts := map[normalize.Field]int{}
	for i := range head.Len() {
		id := head.ID(i)
		counts[id]++
		switch id {
		case normalize.FieldConnection, normalize.FieldTE:
		case normalize.FieldXForwardedFor:
			if value := string(head.Value(i)); !strings.HasSuffix(value, "192.0.2.1") || !trusted && value != "192.0.2.1" {
				t.Fatalf("X-Forwarded-For: %q", value)
			}
		default:
			if id.ConnectionOnly() || id == normalize.FieldExpect || !trusted && (id == normalize.FieldForwarded || id == normalize.FieldIdentityOther) {
				t.Fatalf("forwarded %s: %s", head.Name(i), head.Value(i))
			}
		}
	}
	for _, id := range []normalize.Field{
		normalize.FieldXForwardedFor, normalize.FieldXForwardedPort, normalize.FieldXForwardedProto,
		normalize.FieldXForwardedServer, normalize.FieldXRealIP,
	} {
		if counts[id] == 0 || !trusted && counts[id] != 1 {
			t.Fatalf("%s is there %d times", id, counts[id])
		}
	}
}
