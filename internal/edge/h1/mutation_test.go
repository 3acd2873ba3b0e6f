package h1_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
)

// smuggled is the request that every mutation below tries to get past: the
// body is one length by Content-Length and another by Transfer-Encoding.
const smuggled = "0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n"

// codingSpellings are ways to write Transfer-Encoding: chunked that some
// server takes for it and another does not. The first is the honest one.
func codingSpellings() []string {
	lines := []string{"Transfer-Encoding: chunked"}
	for c := range 256 {
		odd := string([]byte{byte(c)})
		lines = append(lines,
			odd+"Transfer-Encoding: chunked",
			"Transfer-Encoding"+odd+": chunked",
			"Transfer-Encoding:"+odd+"chunked",
			"Transfer-Encoding: chunked"+odd,
			"Transfer-Encoding: chun"+odd+"ked",
			"Transfer"+odd+"Encoding: chunked",
			"Transfer-Encoding"+odd+" chunked",
			"X: y"+odd+"Transfer-Encoding: chunked",
			"Transfer-Encoding: "+odd+", chunked",
			"Transfer-Encoding: chunked, "+odd,
		)
	}
	return append(lines,
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked, identity",
		"Transfer-Encoding:\r\n chunked",
		"Transfer-Encoding: \r\n\tchunked",
		"X: y\r\n Transfer-Encoding: chunked",
		"X: y\nTransfer-Encoding: chunked",
		"X: y\rTransfer-Encoding: chunked",
		"X: y\r\rTransfer-Encoding: chunked",
		"Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: 'chunked'",
		"Transfer-Encoding: chunked;q=1",
		"Transfer-Encoding: cow, chunked",
		"Transfer-encoding: CHUNKED",
		"TRANSFER-ENCODING: Chunked",
		"Content-Encoding: chunked",
		"Transfer_Encoding: chunked",
		"Transfer Encoding: chunked",
		"Transfer-Encoding: ch\u0075nked\u200b",
		"transfer-\u0435ncoding: chunked",
	)
}

// TestSmuggling sends every spelling together with a Content-Length, before
// and after it. Either the request is refused, or net/http and we agree that
// the length is Content-Length's: never is there a second request.
func TestSmuggling(t *testing.T) {
	accepted := 0
	for _, line := range codingSpellings() {
		length := fmt.Sprintf("Content-Length: %d", len(smuggled))
		for _, lines := range []string{line + "\r\n" + length, length + "\r\n" + line} {
			raw := []byte("POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n\r\n" + smuggled)
			if compare(t, raw) {
				accepted++
				if n := requestsIn(t, raw); n != 1 {
					t.Errorf("%q is %d requests", raw, n)
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("no mutation was accepted, not even harmless ones: the test tests nothing")
	}
}

// TestCodingAlone sends every spelling without Content-Length. What is taken
// for chunked has to be so for net/http too.
func TestCodingAlone(t *testing.T) {
	var chunked int
	for _, line := range codingSpellings() {
		raw := []byte("POST / HTTP/1.1\r\nHost: a\r\n" + line + "\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
		compare(t, raw)
		limits := h1.DefaultLimits()
		var head h1.Head
		if n, err := head.Parse(raw, &limits); n > 0 && err == nil && head.Framing == h1.Chunked {
			chunked++
		}
	}
	// The honest spelling, white space around it, no space before it, and
	// other cases.
	if chunked < 5 || chunked > 12 {
		t.Errorf("%d spellings are chunked", chunked)
	}
}

// TestLengths sends lengths in all spellings that one byte can make of them.
func TestLengths(t *testing.T) {
	for c := range 256 {
		odd := string([]byte{byte(c)})
		for _, line := range []string{
			"Content-Length: " + odd + "5", "Content-Length: 5" + odd, "Content-Length: 0" + odd + "5",
			"Content-Length" + odd + ": 5", odd + "Content-Length: 5", "Content-Length:" + odd + "5",
			"Content" + odd + "Length: 5", "X: y" + odd + "Content-Length: 5",
			"Content-Length: 5\r\nContent-Length" + odd + ": 7",
		} {
			compare(t, []byte("POST / HTTP/1.1\r\nHost: a\r\n"+line+"\r\n\r\nhello, world and more than fifty-nine bytes of text to read here"))
		}
	}
}

// TestRandomMutations changes good requests a little, again and again.
func TestRandomMutations(t *testing.T) {
	pieces := [][]byte{
		[]byte("\r"), []byte("\n"), []byte("\r\n"), []byte("\r\n\r\n"), []byte(" "), []byte("\t"), []byte(":"), []byte(","), []byte(";"), []byte("\x00"), []byte("\x0b"), []byte("_"),
		[]byte("Content-Length: 3\r\n"), []byte("Transfer-Encoding: chunked\r\n"), []byte("Host: b\r\n"), []byte("0\r\n\r\n"), []byte("5\r\n"), []byte("%2f"), []byte("../"), []byte("#"),
		[]byte("Connection: close, host\r\n"), []byte("Trailer: x\r\n"), []byte("http://a"), []byte("é"), []byte("+"), []byte("0x"),
	}
	random := rand.New(rand.NewPCG(5, 6))
	accepted := 0
	for range 60_000 {
		raw := []byte(requests[random.IntN(len(requests))].raw + "5\r\nhello\r\n0\r\n\r\n")
		for range 1 + random.IntN(3) {
			at := random.IntN(len(raw))
			switch random.IntN(4) {
			case 0: // insert
				raw = bytes.Join([][]byte{raw[:at], pieces[random.IntN(len(pieces))], raw[at:]}, nil)
			case 1: // delete
				raw = append(raw[:at:at], raw[min(at+1+random.IntN(4), len(raw)):]...)
			case 2: // replace
				raw = bytes.Clone(raw)
				raw[at] = byte(random.IntN(256))
			case 3: // repeat
				end := min(at+random.IntN(30), len(raw))
				raw = bytes.Join([][]byte{raw[:end], raw[at:end], raw[end:]}, nil)
			}
			if len(raw) == 0 {
				break
			}
		}
		if compare(t, raw) {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d mutations were accepted: the test tests little", accepted)
	}
}

// requestsIn counts the requests in raw until one is refused.
func requestsIn(t *testing.T, raw []byte) (count int) {
	t.Helper()
	limits := h1.DefaultLimits()
	for len(raw) > 0 {
		var head h1.Head
		n, err := head.Parse(raw, &limits)
		if n == 0 || err != nil {
			return count
		}
		var body h1.Body
		body.Reset(head.Framing, head.Length, true, &limits)
		_, used, err := readBody(&body, raw[n:], len(raw))
		if err != nil {
			return count
		}
		count++
		raw = raw[n+used:]
	}
	return count
}
