package edge_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// TestPriorKnowledge: HTTP/2 without TLS is spoken where HTTP/1.1 is, on one
// port.
func TestPriorKnowledge(t *testing.T) {
	s := start(t, tableFor(edgetest.Backend(t, edgetest.Echo)))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for range 3 {
		response := must.Get(client.Post("http://"+s.address+"/x", "text/plain", strings.NewReader("hello")))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.ProtoMajor != 2 || !strings.HasPrefix(string(body), "POST /x hello") {
			t.Errorf("%s: %q %v", response.Proto, body, err)
		}
	}
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 200 {
		t.Errorf("HTTP/1.1: got %d", response.StatusCode)
	}
}

// TestClientLeavesStream: a backend is not kept busy for a client that has cut
// its request off.
func TestClientLeavesStream(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	s := start(t, tableFor(edgetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(left)
	})))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/", nil))(t)
	if response, err := transport.RoundTrip(request); err == nil {
		t.Errorf("got %v", response)
	}
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the backend is still asked")
	}
}

// TestClientLeaves: nor for one that has closed its connection, plain or TLS.
func TestClientLeaves(t *testing.T) {
	for _, secured := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secured), func(t *testing.T) {
			asked, left := make(chan struct{}), make(chan struct{})
			table := tableFor(edgetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
				close(asked)
				<-r.Context().Done()
				close(left)
			}))
			point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
			point.TLS = secured
			s := startAt(t, table, point)
			conn := must.Get(net.Dial("tcp", s.address))(t)
			if secured {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			must.Get(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))(t)
			<-asked
			conn.Close()
			select {
			case <-left:
			case <-time.After(20 * time.Second):
				t.Error("the backend is still asked")
			}
		})
	}
}

// TestProxyProtocol: the client's address is the one of the header of a
// trusted balancer, and who sends none is not let in.
func TestProxyProtocol(t *testing.T) {
	for _, c := range []struct {
		name, header string
		trusted      []netip.Prefix
		optional     bool
		want         string // of X-Forwarded-For; empty is a closed connection
	}{
		{"version 1", "PROXY TCP4 192.0.2.7 192.0.2.1 1000 80\r\n", loopback, false, "192.0.2.7"},
		{"no header", "", loopback, false, ""},
		{"no header, optional", "", loopback, true, "127.0.0.1"},
		{"not trusted", "PROXY TCP4 192.0.2.7 192.0.2.1 1000 80\r\n", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
			point.ProxyTrusted, point.ProxyOptional = c.trusted, c.optional
			s := startAt(t, tableFor(edgetest.Backend(t, edgetest.Echo)), point)
			if c.want == "" {
				// A connection that is refused may be gone before it is used.
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, c.header+"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if got, err := io.ReadAll(conn); len(got) > 0 {
					t.Errorf("got %q %v, want a closed connection", got, err)
				}
				return
			}
			w := edgetest.Dial(t, s.address)
			w.Send(c.header + "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, body := w.Response("GET"); !strings.Contains(body, "X-Forwarded-For: "+c.want+"\n") {
				t.Errorf("the backend got\n%s", body)
			}
		})
	}
}

// TestForwardedTrust: X-Forwarded headers count from trusted proxies alone.
func TestForwardedTrust(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		want    string
	}{
		{"nobody", nil, "X-Forwarded-For: 127.0.0.1\n"},
		{"loopback", loopback, "X-Forwarded-For: 192.0.2.9, 127.0.0.1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
			point.ForwardTrusted = c.trusted
			table := tableFor(edgetest.Backend(t, edgetest.Echo))
			table.Rules[0].Policies = []route.Policy{{IPFilter: &route.IPFilter{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/32")}}}}
			s := startAt(t, table, point)
			w := edgetest.Dial(t, s.address)
			w.Send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n")
			if _, body := w.Response("GET"); !strings.Contains(body, c.want) {
				t.Errorf("the backend got\n%s", body)
			}
			w.Send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.10\r\n\r\n")
			if response, _ := w.Response("GET"); (response.StatusCode == 403) != (c.trusted != nil) {
				t.Errorf("the address to keep out: got %d", response.StatusCode)
			}
		})
	}
}

// speaker is a TCP server that speaks first and then repeats what it hears. It
// is no HTTP server.
func speaker(t *testing.T, greeting string, wrap func(net.Conn) net.Conn) netip.AddrPort {
	t.Helper()
	return programs.Serve(t, "", func(plain net.Conn) {
		conn := wrap(plain)
		if _, err := io.WriteString(conn, greeting); err == nil {
			_, _ = io.Copy(conn, conn)
		}
	})
}

func asIs(conn net.Conn) net.Conn { return conn }

// tcpTable has the routes of a test, each with one endpoint, beside a rule.
func tcpTable(t *testing.T, routes map[*route.TCPRoute]netip.AddrPort) *route.Table {
	t.Helper()
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	for tcp, address := range routes {
		id := route.BackendID{Name: tcp.ID.Name, Port: 1}
		tcp.EntryPoints, tcp.Backends = []string{"web"}, []route.BackendRef{{Backend: id}}
		table.TCPRoutes = append(table.TCPRoutes, tcp)
		table.Backends = append(table.Backends, &route.Backend{ID: id, Endpoints: []route.Endpoint{{Address: address}}})
	}
	return table
}

// talk expects the greeting, sends text and expects it back, until it ends
// the connection and so does the other side.
func talk(t *testing.T, conn net.Conn, greeting string) {
	t.Helper()
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	const text = "hello there"
	must.Get(io.WriteString(conn, text))(t)
	must.Do(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	if got, err := io.ReadAll(conn); string(got) != greeting+text {
		t.Errorf("got %q %v", got, err)
	}
}

// TestTCPPlain: the server may speak first.
func TestTCPPlain(t *testing.T) {
	s := start(t, tcpTable(t, map[*route.TCPRoute]netip.AddrPort{
		{ID: route.TCPRouteID{Name: "db"}, TLS: route.TLSPlain}: speaker(t, "ready\n", asIs),
	}))
	conn := must.Get(net.Dial("tcp", s.address))(t)
	talk(t, conn, "ready\n")
}

// TestTCPByServerName: connections are routed by SNI, decrypted or passed
// as they are, and what no TCP route takes is HTTP.
func TestTCPByServerName(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	own := authority.Issue(t, "passed.example").TLS(t)
	table := tcpTable(t, map[*route.TCPRoute]netip.AddrPort{
		{ID: route.TCPRouteID{Name: "passed"}, TLS: route.TLSPassthrough, ServerName: "passed.example"}: speaker(t, "passed\n", func(conn net.Conn) net.Conn {
			return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{own}})
		}),
		{ID: route.TCPRouteID{Name: "decrypted"}, TLS: route.TLSTerminate, ServerName: "*.db.example"}: speaker(t, "decrypted\n", asIs),
	})
	table.Certificates = []*route.Certificate{certificate(t, authority, "db", "*.db.example"), certificate(t, authority, "web", "web.example")}
	point := secure("web")
	s := startAt(t, table, point)
	for name, greeting := range map[string]string{"passed.example": "passed\n", "PASSED.example": "passed\n", "one.db.example": "decrypted\n"} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(tls.Dial("tcp", s.address, &tls.Config{ServerName: name, RootCAs: authority.Pool}))(t)
			talk(t, conn, greeting)
		})
	}
	response, body, err := newBrowser(t, s.address, &tls.Config{RootCAs: authority.Pool}, true).get("https://web.example/", "")
	if err != nil || response.StatusCode != 200 || !strings.HasPrefix(body, "GET / ") {
		t.Errorf("HTTP beside TCP: %v %q %v", response, body, err)
	}
}

// pausedConn calls a function before its second write, which in a handshake of TLS 1.3 is
// the last of the client.
type pausedConn struct {
	net.Conn
	writes int
	pause  func()
}

func (c *pausedConn) Write(data []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		c.pause()
	}
	return c.Conn.Write(data)
}

// TestTCPChanged: a connection whose route gets another backend during the handshake
// goes to that one.
func TestTCPChanged(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	tcp := route.TCPRoute{ID: route.TCPRouteID{Name: "old"}, TLS: route.TLSTerminate, ServerName: "db.example"}
	table := tcpTable(t, map[*route.TCPRoute]netip.AddrPort{&tcp: speaker(t, "old\n", asIs)})
	table.Certificates = []*route.Certificate{certificate(t, authority, "db", "db.example")}
	s := startAt(t, table, secure("web"))
	changed, id := tcp, route.BackendID{Name: "new", Port: 1}
	changed.Backends = []route.BackendRef{{Backend: id}}
	change := &route.Change{}
	change.TCPRoutes.Changed = []*route.TCPRoute{&changed}
	change.Backends.Added = []*route.Backend{{ID: id, Endpoints: []route.Endpoint{{Address: speaker(t, "new\n", asIs)}}}}
	change.Backends.Removed = []route.BackendID{tcp.Backends[0].Backend}
	plain := must.Get(net.Dial("tcp", s.address))(t)
	conn := tls.Client(&pausedConn{Conn: plain, pause: func() {
		if feedback := s.Update(change); len(feedback.Problems) > 0 {
			t.Error(feedback.Problems)
		}
	}}, &tls.Config{ServerName: "db.example", RootCAs: authority.Pool})
	talk(t, conn, "new\n")
}

// TestTCPPolicies: who is to stay out is not connected.
func TestTCPPolicies(t *testing.T) {
	tcp := &route.TCPRoute{ID: route.TCPRouteID{Name: "db"}, TLS: route.TLSPlain, Policies: []route.Policy{
		{IPFilter: &route.IPFilter{Deny: loopback}},
	}}
	s := start(t, tcpTable(t, map[*route.TCPRoute]netip.AddrPort{tcp: speaker(t, "ready\n", asIs)}))
	w := edgetest.Dial(t, s.address)
	w.RequireClosed()
}

// TestTCPIdle: a connection that neither side uses ends.
func TestTCPIdle(t *testing.T) {
	tcp := &route.TCPRoute{ID: route.TCPRouteID{Name: "db"}, TLS: route.TLSPlain, Timeouts: route.Timeouts{Idle: route.Duration(50 * time.Millisecond)}}
	s := start(t, tcpTable(t, map[*route.TCPRoute]netip.AddrPort{tcp: speaker(t, "ready\n", asIs)}))
	w := edgetest.Dial(t, s.address)
	if got, err := io.ReadAll(w.Reader); string(got) != "ready\n" {
		t.Errorf("got %q %v", got, err)
	}
}

// TestWrongProtocol: what an entry point does not speak is not served.
func TestWrongProtocol(t *testing.T) {
	s := startAt(t, tableFor(edgetest.Backend(t, edgetest.Echo)), edge.DefaultEntryPoint("web", "127.0.0.1:0"), secure("websecure"))
	if conn, err := tls.Dial("tcp", s.Addresses()[0].String(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		conn.Close()
		t.Error("TLS on a plain entry point")
	}
	w := edgetest.Dial(t, s.Addresses()[1].String())
	fmt.Fprint(w, "SSH-2.0-x\r\n")
	if got, err := io.ReadAll(w.Reader); !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("got %q %v", got, err)
	}
}
