package resilience

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// poolRequests is how many requests are made altogether, and poolClients
	// how many clients share the pool.
	poolRequests = 10_000
	poolClients  = 16
)

// mix is a kind of request: what the client does, and what it asks the backend
// to do.
type mix struct {
	kind   string // of the spoiler
	method string
	// body is what is sent, with the header lines of its framing.
	lines, body string
	// hangUp makes the client go away as soon as it has sent this.
	hangUp bool
	// failing is set when the edge may respond for the backend, which broke.
	failing bool
}

func mixes() []mix {
	const length = "Content-Length: 5\r\n"
	all := []mix{
		{kind: "plain", method: "GET"}, {kind: "plain", method: "HEAD"}, {kind: "plain", method: "POST", lines: length, body: "hello"}, {kind: "plain", method: "OPTIONS"}, {kind: "plain", method: "DELETE"},
		{kind: "plain", method: "POST", lines: "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\nX-T: y\r\n\r\n"},
		{kind: "plain", method: "POST", lines: length + "Expect: 100-continue\r\n", body: "hello"},
		{kind: "early", method: "POST", lines: length + "Expect: 100-continue\r\n", body: "hello"},
		{kind: "early-close", method: "POST", lines: length + "Expect: 100-continue\r\n", body: "hello", failing: true},
		{kind: "early", method: "POST", lines: "Content-Length: 100000\r\n", body: strings.Repeat("x", 100000), failing: true},
		{kind: "early-close", method: "POST", lines: "Content-Length: 100000\r\n", body: strings.Repeat("x", 100000), failing: true},
		{kind: "early", method: "POST", lines: "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\n\r\n", failing: true},
		{kind: "plain", method: "GET", lines: "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"},
		{kind: "interim", method: "GET"}, {kind: "interim", method: "HEAD"}, {kind: "interim", method: "POST", lines: length, body: "hello"}, {kind: "chunked", method: "GET"}, {kind: "chunked", method: "HEAD"}, {kind: "empty", method: "GET"}, {kind: "unchanged", method: "GET"},
		{kind: "until-close", method: "GET"}, {kind: "old", method: "GET"}, {kind: "large", method: "GET"}, {kind: "slow", method: "GET"}, {kind: "gone", method: "GET"},
		{kind: "extra", method: "GET"}, {kind: "extra", method: "POST", lines: length, body: "hello"}, {kind: "extra-empty", method: "GET"}, {kind: "garbage", method: "GET"},
		{kind: "short", method: "GET", failing: true}, {kind: "nothing", method: "GET", failing: true}, {kind: "unasked-switch", method: "GET", failing: true},
		// The client goes away: while it sends, and before it reads.
		{kind: "plain", method: "POST", lines: "Content-Length: 100\r\n", body: "hello", hangUp: true}, {kind: "plain", method: "POST", lines: "Transfer-Encoding: chunked\r\n", body: "5\r\nhel", hangUp: true},
		{kind: "plain", method: "POST", lines: "Content-Length: 100\r\nExpect: 100-continue\r\n", hangUp: true}, {kind: "large", method: "GET", hangUp: true}, {kind: "slow", method: "GET", hangUp: true}, {kind: "chunked", method: "GET", hangUp: true},
		{kind: "early", method: "POST", lines: "Content-Length: 100\r\n", body: "hello", hangUp: true},
	}
	// Most requests are honest: they are the ones that would find what others
	// left behind.
	for range len(all) {
		all = append(all, mix{kind: "plain", method: "GET"})
	}
	return all
}

// TestPool: whatever happened on a connection to a backend before, a client
// gets the response to its own request or an error, and never another's.
func TestPool(t *testing.T) {
	backend := edgeprocess.Backend("spoiler", startSpoiler(t))
	edge := edgeprocess.Start(t, edgeprocess.Options{Table: &route.Table{
		Rules:    []*route.Rule{{ID: route.ID{Name: "all"}, Backends: edgeprocess.To(backend)}},
		Backends: []*route.Backend{backend},
	}})
	all := mixes()
	var number, failed, honestly atomic.Int64
	var working sync.WaitGroup
	for i := range poolClients {
		working.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			c := &poolClient{address: edge.Address("web")}
			defer c.hangUp()
			for range poolRequests / poolClients {
				m := all[random.IntN(len(all))]
				nonce := fmt.Sprintf("nonce-%06d", number.Add(1))
				status, err := c.try(m, nonce)
				switch {
				case err != nil:
					t.Errorf("%s %s %s: %v", m.method, m.kind, nonce, err)
				case status >= 500 && !m.failing:
					failed.Add(1)
				case !m.hangUp && !m.failing:
					honestly.Add(1)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	working.Wait()
	t.Logf("%d requests, %d answered as asked, %d others failed because of what the backend did before", number.Load(), honestly.Load(), failed.Load())
	// A connection that the backend closed just now costs a request that cannot
	// be sent twice. It must not be more than that.
	if failed.Load() > poolRequests/50 {
		t.Errorf("%d honest requests failed", failed.Load())
	}
}

// poolClient makes requests on one connection as long as it lasts.
type poolClient struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
}

func (c *poolClient) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// try makes a request and checks whose response it got.
func (c *poolClient) try(m mix, nonce string) (status int, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.address, answerTimeout); err != nil {
			return 0, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	head := fmt.Sprintf("%s /%s/%s HTTP/1.1\r\nHost: pool.test\r\n%s\r\n", m.method, m.kind, nonce, m.lines)
	if _, err := io.WriteString(c.conn, head+m.body); err != nil && !m.failing {
		return 0, err
	}
	if m.hangUp {
		c.hangUp()
		return 0, nil
	}
	response, err := c.answer(m.method)
	if err != nil {
		c.hangUp()
		if m.failing {
			return 502, nil
		}
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if response.Close || err != nil {
		c.hangUp()
	}
	if response.StatusCode >= 500 && response.Header.Get("X-Nonce") == "" {
		return response.StatusCode, nil // the edge's own
	}
	if got := response.Header.Get("X-Nonce"); got != nonce {
		return 0, fmt.Errorf("the answer of %q", got)
	}
	if text := strings.ReplaceAll(string(body), nonce, ""); text != "" {
		return 0, fmt.Errorf("a body of another: %.80q", text)
	}
	if err != nil && !m.failing {
		return 0, err
	}
	return response.StatusCode, nil
}

// answer reads a final response.
func (c *poolClient) answer(method string) (*http.Response, error) {
	for range 20 {
		response, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil || response.StatusCode >= 200 {
			return response, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("it switched protocols")
		}
	}
	return nil, errors.New("no final answer")
}
