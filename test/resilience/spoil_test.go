package resilience

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// spoiler is a backend that does with a connection whatever a request asks it
// to: /kind/nonce. Every response carries the nonce in a header and, if it has a
// body, in its body.
type spoiler struct{}

// startSpoiler serves until the end of the test.
func startSpoiler(t *testing.T) netip.AddrPort {
	t.Helper()
	return programs.Serve(t, "", new(spoiler).serve)
}

func (s *spoiler) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		parts := strings.Split(strings.TrimPrefix(request.URL.Path, "/"), "/")
		if len(parts) != 2 {
			return
		}
		if !spoil(conn, request, parts[0], parts[1]) {
			return
		}
	}
}

// plain is a response with a length.
func plain(nonce string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Nonce: %s\r\nContent-Length: %d\r\n\r\n%s", nonce, len(nonce), nonce)
}

// poison is a response that belongs to no request.
const poison = "HTTP/1.1 200 OK\r\nX-Nonce: poison\r\nContent-Length: 6\r\n\r\npoison"

// spoil responds to a request, and reports whether the connection goes on.
func spoil(conn net.Conn, request *http.Request, kind, nonce string) bool {
	say := func(text string) bool {
		_, err := io.WriteString(conn, text)
		return err == nil
	}
	switch kind {
	case "early": // without reading the body, and the connection stays open
		return say(plain(nonce))
	case "early-close":
		say(strings.Replace(plain(nonce), "200 OK\r\n", "413 Too Large\r\nConnection: close\r\n", 1))
		return false
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return false
	}
	if request.Method == http.MethodHead {
		return say("HTTP/1.1 200 OK\r\nX-Nonce: " + nonce + "\r\nContent-Length: 1000\r\n\r\n")
	}
	switch kind {
	case "interim":
		return say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + plain(nonce))
	case "chunked":
		return say(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Nonce: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n", nonce, len(nonce), nonce, nonce))
	case "empty":
		return say("HTTP/1.1 204 No Content\r\nX-Nonce: " + nonce + "\r\n\r\n")
	case "unchanged":
		return say("HTTP/1.1 304 Not Modified\r\nX-Nonce: " + nonce + "\r\nContent-Length: 1000\r\n\r\n")
	case "until-close":
		say("HTTP/1.1 200 OK\r\nX-Nonce: " + nonce + "\r\nConnection: close\r\n\r\n" + nonce)
		return false
	case "old":
		say("HTTP/1.0 200 OK\r\nX-Nonce: " + nonce + "\r\n\r\n" + nonce)
		return false
	case "extra": // more than was asked for, at once
		return say(plain(nonce) + poison)
	case "extra-empty":
		return say("HTTP/1.1 204 No Content\r\nX-Nonce: " + nonce + "\r\n\r\n" + poison)
	case "garbage":
		return say(plain(nonce) + "\r\n\r\ngarbage")
	case "short": // less than was said
		say(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Nonce: %s\r\nContent-Length: %d\r\n\r\n%s", nonce, len(nonce)+10, nonce))
		return false
	case "gone": // closed without a word, after an answer
		say(plain(nonce))
		return false
	case "nothing":
		return false
	case "unasked-switch":
		say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\nX-Nonce: " + nonce + "\r\n\r\n" + poison)
		return false
	case "large":
		return say(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Nonce: %s\r\nContent-Length: %d\r\n\r\n%s", nonce, 100*len(nonce), strings.Repeat(nonce, 100)))
	case "slow":
		half := len(plain(nonce)) / 2
		if !say(plain(nonce)[:half]) {
			return false
		}
		<-time.After(time.Millisecond)
		return say(plain(nonce)[half:])
	}
	return say(plain(nonce))
}
