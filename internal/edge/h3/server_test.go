package h3_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// The context of a connection is there in its handshake and in its requests.
func TestContext(t *testing.T) {
	type key struct{}
	inHandshake := make(chan any, 1)
	got := make(chan [2]string, 1)
	cfg := h3.Config{
		TLS: &tls.Config{},
		Context: func(ctx context.Context, client net.Addr) context.Context {
			return context.WithValue(ctx, key{}, "client "+client.String())
		},
		Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
			said, _ := x.Stream.Context().Value(key{}).(string)
			got <- [2]string{said, "client " + x.Conn.RemoteAddr().String()}
			_ = x.Respond(200, x.Conn.LocalAddr().String())
		}),
	}
	cfg.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		inHandshake <- hello.Context().Value(key{})
		return nil, nil
	}
	s := start(t, cfg)
	must.Do(t, get(t, client(t, s), s.url))
	said := <-got
	if said[0] != said[1] || said[0] == "" {
		t.Errorf("the request has %q", said)
	}
	if made := <-inHandshake; made != said[0] {
		t.Errorf("the handshake has %v", made)
	}
}

func TestAltSvc(t *testing.T) {
	s := start(t, h3.Config{Handler: ok()})
	_, port, err := net.SplitHostPort(s.Addr().String())
	must.Do(t, err)
	if got, want := s.AltSvc(), fmt.Sprintf(`h3=":%s"; ma=86400`, port); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	announced := start(t, h3.Config{Handler: ok(), Port: 443})
	if got := announced.AltSvc(); !strings.HasPrefix(got, `h3=":443"`) {
		t.Errorf("%s", got)
	}
}

func TestConfig(t *testing.T) {
	good := h3.Config{Address: "127.0.0.1:0", TLS: &tls.Config{}, Handler: http.NotFoundHandler()}
	for name, change := range map[string]func(*h3.Config){
		"no address":       func(c *h3.Config) { c.Address = "" },
		"no TLS":           func(c *h3.Config) { c.TLS = nil },
		"no handler":       func(c *h3.Config) { c.Handler = nil },
		"a bad port":       func(c *h3.Config) { c.Port = 70000 },
		"a negative limit": func(c *h3.Config) { c.MaxConns = -1 },
		"windows":          func(c *h3.Config) { c.StreamWindow = 2 << 20 },
		"a negative time":  func(c *h3.Config) { c.IdleTimeout = -1 },
		"a bad address":    func(c *h3.Config) { c.Address = "nowhere" },
	} {
		cfg := good
		change(&cfg)
		if s, err := h3.Listen(cfg); err == nil {
			s.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}

// Connections beyond the limit are refused, and there is room again later.
func TestMaxConns(t *testing.T) {
	s := start(t, h3.Config{Handler: ok(), MaxConns: 1})
	conn := must.Get(dial(t, s))(t)
	var refused *quic.TransportError
	if _, err := dial(t, s); !errors.As(err, &refused) || refused.ErrorCode != quic.ConnectionRefused {
		t.Errorf("a second connection: %v", err)
	}
	if reason := bridgetest.Within(t, "a refusal", s.refused); reason != h3.ReasonLimit {
		t.Errorf("refused because of %s", reason)
	}
	bridgetest.Within(t, "the server's side", s.opened)
	must.Do(t, conn.CloseWithError(0, ""))
	if reason := bridgetest.Within(t, "the end", s.reasons); reason != h3.ReasonEnded {
		t.Errorf("ended because of %s", reason)
	}
	// The end is announced beside the place that becomes free.
	programs.Eventually(t, func(context.Context) error { return get(t, client(t, s), s.url) })
}

// A connection that asks for nothing ends, even when it pretends to.
func TestIdle(t *testing.T) {
	s := start(t, h3.Config{Handler: ok(), IdleTimeout: 100 * time.Millisecond})
	conn, err := dial(t, s)
	must.Do(t, err)
	stream := must.Get(conn.OpenStream())(t)
	if _, err := stream.Write([]byte{1, 50, 0, 0}); err != nil { // a part of HEADERS
		t.Fatal(err)
	}
	if reason := bridgetest.Within(t, "the end", s.reasons); reason != h3.ReasonIdle {
		t.Errorf("ended because of %s", reason)
	}
}

// 0-RTT is not accepted from a client that has been here before.
func TestNoEarlyData(t *testing.T) {
	s := start(t, h3.Config{Handler: ok()})
	cache := tls.NewLRUClientSessionCache(1)
	config := &tls.Config{RootCAs: s.roots, NextProtos: []string{"h3"}, ClientSessionCache: cache}
	for i := range 2 {
		conn := must.Get(quic.DialAddrEarly(t.Context(), s.Addr().String(), config, nil))(t)
		bridgetest.Within(t, "the handshake", conn.HandshakeComplete())
		if conn.ConnectionState().Used0RTT {
			t.Errorf("connection %d used 0-RTT", i)
		}
		// The ticket comes with the first packets after the handshake.
		stream := must.Get(conn.AcceptUniStream(t.Context()))(t)
		if _, err := stream.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = conn.CloseWithError(0, "")
	}
}

// A client that cuts its requests off again and again.
func TestRapidResets(t *testing.T) {
	arrived := make(chan struct{})
	s := start(t, h3.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		arrived <- struct{}{}
		<-x.Stream.Context().Done()
	})})
	c := client(t, s)
	for range 400 {
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() { request(ctx, t, c, s.url) })
		select {
		case <-arrived:
		case reason := <-s.reasons:
			cancel()
			asking.Wait()
			if reason != h3.ReasonResets {
				t.Errorf("ended because of %s", reason)
			}
			return
		}
		cancel()
		asking.Wait()
	}
	t.Error("the client was let")
}

// request sends a request, whose response does not matter.
func request(ctx context.Context, t *testing.T, c *http.Client, url string) {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Error(err)
	}
	if response, err := c.Do(r); err == nil {
		response.Body.Close()
	}
}

// Requests that go on after the client has left them do not pile up: there are
// never more of them than streams.
func TestStreamsAreBounded(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	var running, most atomic.Int32
	s := start(t, h3.Config{MaxStreams: 2, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer running.Add(-1)
		most.Store(max(most.Load(), running.Add(1)))
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-release
	})})
	c := client(t, s)
	for i := range 6 {
		if i >= 2 {
			release <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() { request(ctx, t, c, s.url) })
		bridgetest.Within(t, "a request", arrived)
		cancel()
		asking.Wait()
	}
	close(release)
	if most.Load() != 2 {
		t.Errorf("%d requests ran at once", most.Load())
	}
}

// A client that waits with its body gets 100 Continue once. The library leaves
// that to the origin.
func TestExpect(t *testing.T) {
	s := start(t, h3.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		if !x.Head.ExpectContinue {
			t.Error("the origin does not see Expect")
		}
		_ = x.Send("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n")
		body, _, err := x.Upload()
		_ = x.Respond(200, fmt.Sprint(string(body), err))
	})})
	var told atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusContinue {
				told.Add(1)
			}
			return nil
		},
	})
	r := must.Get(http.NewRequestWithContext(ctx, "POST", s.url, strings.NewReader("hello")))(t)
	r.Header.Set("Expect", "100-continue")
	response := must.Get(client(t, s).Do(r))(t)
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "hello<nil>" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if told.Load() != 1 {
		t.Errorf("told %d times to go on", told.Load())
	}
}

// A GET that neither ends nor goes on gets a response when its time is over.
func TestGetWithoutEnd(t *testing.T) {
	handler := ok()
	handler.HeadTimeout = 50 * time.Millisecond
	s := start(t, h3.Config{Handler: handler})
	conn := must.Get(dial(t, s))(t)
	transport := new(http3.Transport)
	defer transport.Close()
	stream := must.Get(transport.NewClientConn(conn).OpenRequestStream(t.Context()))(t)
	r := must.Get(http.NewRequest("GET", s.url, nil))(t)
	must.Do(t, stream.SendRequestHeader(r))
	response := must.Get(stream.ReadResponse())(t)
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered %d", response.StatusCode)
	}
}
