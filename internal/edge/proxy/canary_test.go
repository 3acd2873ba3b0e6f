package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// canary is a backend that behaves as badly as the path of each request asks.
// Every response repeats the request's nonce. What is not a request, on a
// connection that should have one, is counted: some other request left it.
type canary struct {
	desyncs, connections atomic.Int64
}

func (c *canary) serve(conn net.Conn, read *bufio.Reader) {
	c.connections.Add(1)
	for {
		if _, err := read.Peek(1); err != nil {
			return
		}
		request, err := http.ReadRequest(read)
		if err != nil {
			if _, broken := err.(net.Error); !broken && err != io.ErrUnexpectedEOF {
				c.desyncs.Add(1)
			}
			return
		}
		nonce := request.Header.Get("X-Nonce")
		if uri := request.Header.Get("X-Forwarded-Uri"); uri != "" {
			nonce = uri[strings.LastIndexByte(uri, '/')+1:]
		}
		if !c.answer(conn, request, nonce) {
			return
		}
	}
}

// answer responds and reports whether the connection stays open.
func (c *canary) answer(conn net.Conn, request *http.Request, nonce string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	if kind != "early" && kind != "early-close" {
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return false
		}
	}
	body := strings.Repeat(nonce+"\n", 100)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	switch kind {
	case "chunked":
		fmt.Fprintf(conn, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Trail: %s\r\n\r\n", head, len(body), body, nonce)
	case "polluted": // an answer to a question that nobody asked
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", head, len(body), body)
	case "cut":
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, 2*len(body), body)
		return false
	case "hangup":
		return false
	case "unavailable":
		fmt.Fprintf(conn, "HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	case "unavailable-large":
		fmt.Fprintf(conn, "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
		fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", 200000, bytes.Repeat([]byte("x"), 200000))
	case "early":
		// The rest of the body is taken for requests, should it ever come.
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
		if request.ContentLength != 0 {
			_, err := io.Copy(io.Discard, request.Body)
			return err == nil
		}
	case "early-close":
		fmt.Fprintf(conn, "%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", head, len(body), body)
		return false
	case "drip": // its client is gone before the end
		piece := "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npoison\n"
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n", head, 200*len(piece))
		for range 200 {
			if _, err := io.WriteString(conn, piece); err != nil {
				return false
			}
			runtime.Gosched()
		}
	case "interim":
		fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	default:
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	return true
}

// mixedTable has a host for each policy, and one for all together. The same
// canary serves everything.
func mixedTable(address netip.AddrPort) (*route.Table, []string) {
	forwardAuth := route.Policy{ForwardAuth: &route.ForwardAuth{Backend: edgetest.BackendID("side"), Path: "/ok", MaxBodyBytes: 64 << 10}}
	pages := route.Policy{ErrorPages: &route.ErrorPages{Statuses: []route.StatusRange{{From: 500, To: 599}}, Backend: edgetest.BackendID("side"), Path: "/ok"}}
	mirror := route.Policy{Mirror: &route.Mirror{Backend: edgetest.BackendID("side"), Percent: 100, MaxBodyBytes: 64 << 10}}
	retry := retrying(func(r *route.Retry) { r.UnsafeMethods, r.Attempts = true, 2 })
	guard := route.Policy{RequestHeaders: &route.RequestHeaders{Remove: []string{"X-Trail"}}}
	sets := map[string][]route.Policy{
		"plain": nil, "guard": {guard}, "auth": {forwardAuth}, "pages": {pages}, "mirror": {mirror}, "retry": {retry},
		"buffer": {buffers(64<<10, 64<<10)}, "compress": {compressing}, "buffered-retry": {buffers(64<<10, 0), retry},
		"all": {guard, forwardAuth, pages, mirror, retry, buffers(64<<10, 300<<10), compressing},
	}
	table := edgetest.AddBackend(edgetest.AddBackend(&route.Table{}, "app", address), "side", address)
	var hosts []string
	for name, policies := range sets {
		hosts = append(hosts, name+".example")
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Name: name}, Host: name + ".example", Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
			Backends: []route.BackendRef{{Backend: edgetest.BackendID("app")}}, Policies: policies,
		})
	}
	return table, hosts
}

// The manners of a client.
const (
	stays  = iota
	cuts   // its body breaks off
	leaves // it is gone after the head of the answer
)

// mixedRequest makes a request of a random kind, and returns how its client
// behaves.
func mixedRequest(random *rand.Rand, host, nonce string) (request string, manner int) {
	kinds := []string{"ok", "ok", "chunked", "polluted", "cut", "hangup", "unavailable", "unavailable-large", "early", "early-close", "interim", "drip"}
	kind := kinds[random.IntN(len(kinds))]
	line := fmt.Sprintf(" /%s/%s HTTP/1.1\r\nHost: %s\r\nX-Nonce: %s\r\nAccept-Encoding: identity\r\n", kind, nonce, host, nonce)
	if random.IntN(2) == 0 {
		line = strings.Replace(line, "identity", "gzip", 1)
	}
	if kind == "drip" {
		return "GET" + line + "\r\n", leaves
	}
	// Bodies look like requests, should they ever be read as such.
	body := strings.Repeat("GET /poison HTTP/1.1\r\nHost: x\r\nX-Nonce: poison\r\n\r\n", 1+random.IntN(50))
	switch random.IntN(5) {
	case 0, 1:
		return "GET" + line + "\r\n", stays
	case 2:
		return fmt.Sprintf("POST%sContent-Length: %d\r\n\r\n%s", line, len(body), body), stays
	case 3:
		return fmt.Sprintf("PUT%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Trail: 1\r\n\r\n", line, len(body), body), stays
	}
	return fmt.Sprintf("POST%sContent-Length: %d\r\n\r\n%s", line, len(body)+1000, body), cuts
}

// After any exchange that did not end cleanly neither connection is used again:
// no client ever gets what was meant for another, whatever backends and clients do.
func TestNoSwappedAnswers(t *testing.T) {
	backend := &canary{}
	table, hosts := mixedTable(raw(t, backend.serve))
	e := start(t, table)
	const requests = 400
	for worker := range 4 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			var w *edgetest.Wire
			for i := range requests {
				stream := random.IntN(4) == 0
				switch {
				case stream && w != nil:
					w.Close()
					fallthrough
				case stream:
					w = e.stream(t)
				case w == nil:
					w = edgetest.Dial(t, e.Address)
				}
				nonce := fmt.Sprintf("n%d.%d", worker, i)
				request, manner := mixedRequest(random, hosts[random.IntN(len(hosts))], nonce)
				if !mixedExchange(t, w, request, nonce, manner) || stream {
					w.Close()
					w = nil
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := backend.desyncs.Load(); n > 0 {
			t.Errorf("%d times a backend got something else than a request", n)
		}
		t.Logf("%d connections to backends, %+v", backend.connections.Load(), e.Stats())
	})
}

// mixedExchange reports whether the connection can go on.
func mixedExchange(t *testing.T, w *edgetest.Wire, request, nonce string, manner int) bool {
	must.Do(t, w.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.WriteString(w, request); err != nil {
		return false // an answer that was early
	}
	tcp := w.Conn.(*net.TCPConn)
	if manner == cuts && tcp.CloseWrite() != nil {
		return false
	}
	for {
		response, err := http.ReadResponse(w.Reader, nil)
		if err != nil {
			if manner == stays {
				t.Logf("%s: %v", nonce, err)
			}
			return false
		}
		if manner == leaves {
			// Closing with bytes unread resets the connection.
			_ = tcp.SetLinger(0)
			return false
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode < 200 {
			continue
		}
		if encoding := response.Header.Get("Content-Encoding"); encoding != "" && err == nil {
			body = []byte(unpack(t, encoding, string(body)))
		}
		text := string(body)
		if strings.Contains(text, "poison") || strings.Contains(text, "n") && err == nil && response.StatusCode == 200 && !strings.HasPrefix(text, nonce+"\n") {
			t.Errorf("%s got %d %.80q for\n%.200s", nonce, response.StatusCode, text, request)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "n") && strings.Contains(line, ".") && strings.HasSuffix(line, "\n") && line != nonce+"\n" {
				t.Errorf("%s got the answer to %q", nonce, line)
				break
			}
		}
		return err == nil && !response.Close && manner == stays
	}
}
