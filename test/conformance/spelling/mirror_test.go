package spelling

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
	"slipway.dev/slipway/test/conformance/rawh2"
)

const patience = 20 * time.Second

// startMirror is a backend that responds with the head that it got, as it got
// it. It serves until the end of the test.
func startMirror(t *testing.T) netip.AddrPort {
	t.Helper()
	return programs.Serve(t, "", reflect)
}

func reflect(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		var head strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil || head.Len() > 1<<20 {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", head.Len(), head.String()); err != nil {
			return
		}
	}
}

// guarded is a policy that only requests with the password pass.
func guarded() route.Policy {
	sum := sha1.Sum([]byte("password"))
	return route.Policy{BasicAuth: &route.BasicAuth{Users: route.NewSecret("user:{SHA}" + base64.StdEncoding.EncodeToString(sum[:]))}}
}

// credentials is the header with the password.
var credentials = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("user:password"))

// result is what became of a request: the status, and the lines of the head
// that the backend got, if it got one.
type result struct {
	status int
	head   []string
}

// target is what the backend was asked for.
func (r result) target() string {
	if len(r.head) == 0 {
		return ""
	}
	parts := strings.Split(r.head[0], " ")
	return strings.Join(parts[1:len(parts)-1], " ")
}

// path is the target without its query.
func (r result) path() string {
	path, _, _ := strings.Cut(r.target(), "?")
	return path
}

// values are those of a header that the backend got, by its name in any case.
func (r result) values(name string) []string {
	var all []string
	for _, line := range r.head[min(1, len(r.head)):] {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, name) {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

// client sends requests of HTTP/1.1, over one connection as long as it lasts.
type client struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
}

func newClient(t *testing.T, address string) *client {
	c := &client{address: address}
	t.Cleanup(c.hangUp)
	return c
}

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask sends a head, without the empty line at its end.
func (c *client) ask(t *testing.T, lines ...string) result {
	t.Helper()
	if c.conn == nil {
		conn := must.Get(net.DialTimeout("tcp", c.address, patience))(t)
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	must.Do(t, c.conn.SetDeadline(time.Now().Add(patience)))
	text := strings.Join(lines, "\r\n") + "\r\n\r\n"
	if _, err := io.WriteString(c.conn, text); err != nil {
		t.Fatalf("%.200q: %v", text, err)
	}
	response, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		t.Fatalf("%.200q: %v", text, err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatalf("%.200q: %v", text, err)
	}
	if response.Close {
		c.hangUp()
	}
	r := result{status: response.StatusCode}
	if r.status == http.StatusOK {
		r.head = strings.Split(strings.TrimSuffix(string(body), "\r\n"), "\r\n")
	}
	return r
}

// askHTTP2 sends one request on a connection of its own. A stream that is reset
// counts as refused with 400.
func askHTTP2(t *testing.T, address, host, path string, more ...rawh2.Field) result {
	t.Helper()
	conn, err := rawh2.Dial(address, time.Now().Add(patience))
	must.Do(t, err)
	defer func() { _ = conn.Close() }()
	fields := []rawh2.Field{rawh2.F(":method", "GET"), rawh2.F(":scheme", "http"), rawh2.F(":authority", host), rawh2.F(":path", path)}
	err = conn.Headers(1, true, append(fields, more...)...)
	must.Do(t, err)
	replies := must.Get(conn.Collect(1))(t)
	reply := replies.Streams[1]
	if reply == nil || reply.Reset != nil {
		return result{status: http.StatusBadRequest}
	}
	var r result
	if _, err := fmt.Sscan(reply.Status, &r.status); err != nil {
		t.Fatalf("status %q: %v", reply.Status, err)
	}
	if r.status == http.StatusOK {
		r.head = strings.Split(strings.TrimSuffix(string(reply.Body), "\r\n"), "\r\n")
	}
	return r
}

// serveTable starts an edge for rules that all lead to a mirror.
func serveTable(t *testing.T, rules ...*route.Rule) *edgeprocess.Edge {
	t.Helper()
	mirror := edgeprocess.Backend("mirror", startMirror(t))
	for i, rule := range rules {
		rule.ID = route.ID{Name: "rule", Rule: i}
		rule.Backends = edgeprocess.To(mirror)
	}
	return edgeprocess.Start(t, edgeprocess.Options{Table: &route.Table{Rules: rules, Backends: []*route.Backend{mirror}}})
}
