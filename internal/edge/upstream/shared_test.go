package upstream_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// runHTTP2 serves HTTP/2 on a listener, without TLS, until the end of the test.
func runHTTP2(t testing.TB, handler http.HandlerFunc, tune ...func(*http.Server)) string {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	server.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range tune {
		f(server)
	}
	programs.Background(t, func() {
		if server.TLSConfig != nil {
			_ = server.ServeTLS(listener, "", "")
		} else {
			_ = server.Serve(listener)
		}
	}, func() { server.Close() })
	return listener.Addr().String()
}

// proto responds with the protocol and the connection of the request.
func proto(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Peer", r.Proto+" "+r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

// h2cart is cart by HTTP/2 without TLS.
func h2cart(addresses ...string) *route.Backend {
	b := cart(addresses...)
	b.Transport.Protocol = route.ProtocolH2C
	return b
}

// TestProtocols: what a backend declares, what its server offers, and what is
// spoken then.
func TestProtocols(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	config := serving(t, trusted.Issue(t, "cart"))
	over := func(http1, http2 bool) func(*http.Server) {
		return func(s *http.Server) {
			s.TLSConfig = config.Clone()
			s.Protocols.SetUnencryptedHTTP2(false)
			s.Protocols.SetHTTP1(http1)
			s.Protocols.SetHTTP2(http2)
		}
	}
	both, one, two := runHTTP2(t, proto, over(true, true)), runHTTP2(t, proto, over(true, false)), runHTTP2(t, proto, over(false, true))
	clear1 := newPod(t).address
	clear2 := runHTTP2(t, proto)
	settings := &route.UpstreamTLS{ServerName: "cart", Authority: authorityID}
	for _, test := range []struct {
		name     string
		protocol route.Protocol
		address  string
		want     string // the protocol, or part of the error
	}{
		{"h2c", route.ProtocolH2C, clear2, "HTTP/2.0"},
		{"h2cToHTTP1", route.ProtocolH2C, clear1, "HTTP/2"},
		{"tlsToBoth", route.ProtocolTLS, both, "HTTP/1.1"},
		{"h2ToBoth", route.ProtocolH2, both, "HTTP/2.0"},
		{"alpnToBoth", route.ProtocolALPN, both, "HTTP/2.0"},
		{"h2ToHTTP1", route.ProtocolH2, one, "no application protocol"},
		{"alpnToHTTP1", route.ProtocolALPN, one, "HTTP/1.1"},
		{"h2ToHTTP2", route.ProtocolH2, two, "HTTP/2.0"},
		{"alpnToHTTP2", route.ProtocolALPN, two, "HTTP/2.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			table := secured(test.address, settings, trusted.PEM, nil)
			table.Backends[0].Transport.Protocol = test.protocol
			if !test.protocol.Encrypted() {
				table.Backends[0].Transport.TLS = nil
			}
			w.become(table)
			h := w.Handle(shop)
			lease := pick(t, h, upstream.PickOptions{})
			if lease.Transport().TLS != test.protocol.Encrypted() {
				t.Error("the transport is wrong about TLS")
			}
			conn, err := lease.Connect(t.Context(), testTimeout, false)
			if err != nil {
				var failed *upstream.ConnectError
				if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want a ConnectError with: %s", err, test.want)
				}
				return
			}
			first := get(t, conn)
			conn.Release()
			lease.Done(upstream.OK)
			if !strings.HasPrefix(first, test.want+" ") {
				t.Errorf("spoken was %s, want %s", first, test.want)
			}
			if second := roundTrip(t, h); second != first {
				t.Errorf("the second request came by %s, the first by %s", second, first)
			}
		})
	}
}

// TestH2IsRequired: an endpoint that leaves the choice open is not spoken to.
func TestH2IsRequired(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	address := securePod(t, serving(t, trusted.Issue(t, "cart"))).address
	table := secured(address, &route.UpstreamTLS{ServerName: "cart", Authority: authorityID}, trusted.PEM, nil)
	table.Backends[0].Transport.Protocol = route.ProtocolH2
	w := newWorld(t, upstream.Config{})
	w.become(table)
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.ConnectFailed)
	_, err := lease.Connect(t.Context(), testTimeout, false)
	var failed *upstream.ConnectError
	if !errors.As(err, &failed) || !failed.TLS || !strings.Contains(err.Error(), "set the protocol of the backend to tls or alpn") {
		t.Errorf("error %v, want a ConnectError that says what to do", err)
	}
}

// hold is a server whose requests wait.
type hold struct {
	arrived chan struct{}
	free    chan struct{}
	peers   sync.Map
}

func newHold() *hold {
	return &hold{arrived: make(chan struct{}, 1000), free: make(chan struct{})}
}

func (s *hold) serve(w http.ResponseWriter, r *http.Request) {
	s.peers.Store(r.RemoteAddr, true)
	s.arrived <- struct{}{}
	<-s.free
	w.WriteHeader(http.StatusNoContent)
}

// TestShared: requests at once share a connection, up to what the endpoint
// takes; one connection more is made where that is not enough.
func TestShared(t *testing.T) {
	for _, test := range []struct{ streams, requests, connects int }{{0, 50, 1}, {10, 25, 3}, {1, 4, 4}} {
		t.Run(fmt.Sprint(test.streams, "for", test.requests), func(t *testing.T) {
			server := newHold()
			address := runHTTP2(t, server.serve, func(s *http.Server) {
				s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: test.streams}
			})
			w := newWorld(t, upstream.Config{})
			w.serve(h2cart(address))
			var running sync.WaitGroup
			for range test.requests {
				running.Go(func() { exchange(t, w.Handle(shop), http.StatusNoContent) })
			}
			for range test.requests {
				programs.Receive(t, server.arrived, "a request")
			}
			if got := w.state(t, address); got.Open != int64(test.connects) || got.InFlight != int64(test.requests) {
				t.Errorf("%d connections for %d requests, want %d for %d", got.Open, got.InFlight, test.connects, test.requests)
			}
			close(server.free)
			running.Wait()
			if got := w.state(t, address); got.Idle != test.connects {
				t.Errorf("%d idle connections, want %d", got.Idle, test.connects)
			}
			stats := w.Stats()
			if stats.Connects != uint64(test.connects) || stats.Streams != uint64(test.requests) || stats.Refused != 0 {
				t.Errorf("counted: %+v", stats)
			}
		})
	}
}

// exchange is a whole request, whose failure ends no test that runs beside it.
func exchange(t testing.TB, h *upstream.Handle, status int) {
	lease, err := h.Pick(upstream.PickOptions{})
	if err != nil {
		t.Errorf("pick: %v", err)
		return
	}
	defer lease.Done(upstream.OK)
	conn, err := lease.Connect(t.Context(), testTimeout, false)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	request(t, conn, status)
}

// request makes a request on a connection, and releases it.
func request(t testing.TB, conn *upstream.Conn, status int) {
	if _, err := conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n")); err != nil {
		t.Errorf("write: %v", err)
		conn.Close()
		return
	}
	var head h1.ResponseHead
	if err := conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits); err != nil || head.Status != status {
		t.Errorf("status %d, error %v; want %d", head.Status, err, status)
		conn.Close()
		return
	}
	conn.Release()
}

// TestSharedSurvivesChanges: what stays keeps its connection, what leaves keeps
// it until its requests have ended.
func TestSharedSurvivesChanges(t *testing.T) {
	server := newHold()
	address, other := runHTTP2(t, server.serve), runHTTP2(t, proto)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	h := w.Handle(shop)
	var running sync.WaitGroup
	running.Go(func() { exchange(t, h, http.StatusNoContent) })
	programs.Receive(t, server.arrived, "the first request")
	changed := h2cart(address, other)
	changed.Balancing.Method = route.BalanceRoundRobin
	changed.Endpoints[1].State = route.EndpointDraining
	w.serve(changed)
	running.Go(func() { exchange(t, h, http.StatusNoContent) })
	programs.Receive(t, server.arrived, "the second request")
	if got := w.state(t, address).Open; got != 1 {
		t.Errorf("%d connections after a change, want 1", got)
	}
	w.serve(h2cart(other))
	roundTrip(t, h)
	close(server.free)
	running.Wait()
	stats := w.Stats()
	if stats.Connects != 2 || stats.Streams != 3 {
		t.Errorf("counted: %+v", stats)
	}
	// Another way to talk is another connection.
	w.serve(cart(newPod(t).address))
	roundTrip(t, h)
}

// TestConnectAfterTheChange: a request that chose its endpoint before a change
// reaches it, on a connection that is closed after it.
func TestConnectAfterTheChange(t *testing.T) {
	closed := make(chan struct{}, 1)
	address := runHTTP2(t, proto, func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	w.become(&route.Table{})
	conn := connect(t, &lease)
	get(t, conn)
	conn.Release()
	programs.Receive(t, closed, "the end of the connection")
}

// TestSharedChurn: endpoints come and go while requests run, and none fails.
func TestSharedChurn(t *testing.T) {
	var addresses []string
	for range 4 {
		addresses = append(addresses, runHTTP2(t, proto))
	}
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(addresses...))
	h := w.Handle(shop)
	var running sync.WaitGroup
	var done atomic.Int32
	for range 8 {
		running.Go(func() {
			for range 60 {
				exchange(t, h, http.StatusNoContent)
			}
			done.Add(1)
		})
	}
	for i := 0; done.Load() < 8; i++ {
		w.serve(h2cart(addresses[i%4:]...))
		w.serve(h2cart(addresses[:1+i%4]...))
	}
	running.Wait()
	w.become(&route.Table{})
}

// TestALPNChanges: an endpoint that is replaced by one of the other protocol is
// spoken to in that one.
func TestALPNChanges(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	config := serving(t, trusted.Issue(t, "cart"))
	var http2First atomic.Bool
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mine := config.Clone()
		mine.GetConfigForClient = nil
		mine.NextProtos = []string{"http/1.1"}
		if http2First.Load() {
			mine.NextProtos = []string{"h2"}
		}
		return mine, nil
	}
	address := runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		proto(w, r)
	}, func(s *http.Server) {
		s.TLSConfig = config
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetHTTP2(true)
	})
	table := secured(address, &route.UpstreamTLS{ServerName: "cart", Authority: authorityID}, trusted.PEM, nil)
	table.Backends[0].Transport.Protocol = route.ProtocolALPN
	w := newWorld(t, upstream.Config{})
	w.become(table)
	for _, want := range []string{"HTTP/1.1", "HTTP/1.1", "HTTP/2.0", "HTTP/2.0"} {
		http2First.Store(want == "HTTP/2.0")
		lease := pick(t, w.Handle(shop), upstream.PickOptions{})
		conn := connect(t, &lease)
		must.Get(conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n")))(t)
		var head h1.ResponseHead
		must.Do(t, conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits))
		if peer, _ := head.Find("peer"); !strings.HasPrefix(string(peer), want) {
			t.Errorf("spoken was %s, want %s", peer, want)
		}
		if head.Reusable {
			conn.Release()
		} else {
			conn.Close()
		}
		lease.Done(upstream.OK)
	}
}

// TestDial: bytes go to an endpoint as they are, whatever it speaks.
func TestDial(t *testing.T) {
	for _, protocol := range []route.Protocol{route.ProtocolHTTP1, route.ProtocolH2C} {
		t.Run(string(protocol), func(t *testing.T) {
			address := script(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
			w := newWorld(t, upstream.Config{})
			b := cart(address)
			b.Transport.Protocol = protocol
			w.serve(b)
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.OK)
			conn, err := lease.Dial(t.Context(), testTimeout)
			must.Do(t, err)
			const text = "\x00 not HTTP"
			_, err = io.WriteString(conn.NetConn(), text)
			must.Do(t, err)
			got := make([]byte, len(text))
			if _, err := io.ReadFull(conn.NetConn(), got); err != nil || string(got) != text {
				t.Errorf("got %q, %v; want %q", got, err, text)
			}
			conn.Release()
			if got := w.state(t, address); got.Idle != 0 || got.Open != 0 {
				t.Errorf("%d connections are kept, %d open; want none", got.Idle, got.Open)
			}
		})
	}
}

// TestClosedSetAndStreams: a request that runs comes to its end after Close.
func TestClosedSetAndStreams(t *testing.T) {
	server := newHold()
	address := runHTTP2(t, server.serve)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	var running sync.WaitGroup
	running.Go(func() { exchange(t, w.Handle(shop), http.StatusNoContent) })
	programs.Receive(t, server.arrived, "the request")
	w.Close()
	close(server.free)
	running.Wait()
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.ConnectFailed)
	if _, err := lease.Connect(t.Context(), 0, false); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}
