package listener_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// servePort serves TLS, HTTP/1.1, HTTP/2 without TLS and TLS passthrough on one
// port, as the edge does.
func servePort(t testing.TB, l *listener.Listener) {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"test.example"}}).TLS(t)}, NextProtos: []string{"h2", "http/1.1"}}
	backend := echoTLS(t, config)
	plain, secure := listener.NewHandoff(l.Addr()), listener.NewHandoff(l.Addr())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols:         protocols,
		ReadHeaderTimeout: testTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s tls=%t from %s", r.Proto, r.TLS != nil, r.RemoteAddr)
		}),
	}
	hand := func(c *listener.Conn) {
		first, err := c.Peek()
		switch {
		case err != nil:
			_ = c.Close()
		case first.ServerName == "pass.example":
			passThrough(c, backend)
		case first.Protocol == listener.ProtocolTLS:
			_ = secure.Deliver(context.Background(), c)
		default:
			_ = plain.Deliver(context.Background(), c)
		}
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(plain) })
	running.Go(func() { _ = server.Serve(tls.NewListener(secure, config)) })
	running.Go(func() {
		for {
			c, err := l.AcceptConn()
			if err != nil {
				return
			}
			running.Go(func() { hand(c) })
		}
	})
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close()
		running.Wait()
	})
}

// viaProxy connects and sends a PROXY header.
func viaProxy(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		_, err = conn.Write(proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2"))
	}
	return conn, err
}

func TestOnePort(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{Proxy: listener.ProxyOptional, TrustedProxies: loopback})
	servePort(t, l)
	unencrypted := new(http.Protocols)
	unencrypted.SetUnencryptedHTTP2(true)
	address := l.Addr().String()
	for _, tt := range []struct {
		url       string
		transport *http.Transport
		want      string
	}{
		{"http://" + address, &http.Transport{}, "HTTP/1.1 tls=false from 192.0.2.1:1"},
		{"http://" + address, &http.Transport{Protocols: unencrypted}, "HTTP/2.0 tls=false from 192.0.2.1:1"},
		{"https://" + address, &http.Transport{}, "HTTP/1.1 tls=true from 192.0.2.1:1"},
		{"https://" + address, &http.Transport{ForceAttemptHTTP2: true}, "HTTP/2.0 tls=true from 192.0.2.1:1"},
	} {
		tt.transport.DialContext = viaProxy
		tt.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		response := must.Get((&http.Client{Transport: tt.transport, Timeout: testTimeout}).Get(tt.url))(t)
		body := must.Get(io.ReadAll(io.LimitReader(response.Body, 1<<10)))(t)
		response.Body.Close()
		tt.transport.CloseIdleConnections()
		if string(body) != tt.want {
			t.Errorf("got %q, want %q", body, tt.want)
		}
	}
}

func TestPassthrough(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	servePort(t, l)
	client := must.Get(tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "pass.example"}))(t)
	defer client.Close()
	must.Do(t, client.SetDeadline(time.Now().Add(testTimeout)))
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	sent := make(chan error, 1)
	go func() {
		_, err := client.Write(data)
		sent <- err
	}()
	echoed := make([]byte, len(data))
	if _, err := io.ReadFull(client, echoed); err != nil || !bytes.Equal(echoed, data) {
		t.Errorf("the backend's answer is not what was sent: %v", err)
	}
	must.Do(t, <-sent)
}

// passThrough joins two connections until both are done.
func passThrough(c *listener.Conn, address string) {
	defer c.Close()
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer upstream.Close()
	deadline := time.Now().Add(testTimeout)
	_, _ = c.SetDeadline(deadline), upstream.SetDeadline(deadline)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(upstream, c)
		_ = upstream.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(c, upstream)
		_ = c.CloseWrite()
	})
	both.Wait()
}

// echoTLS runs a TLS server that sends back what it gets.
func echoTLS(t testing.TB, config *tls.Config) string {
	t.Helper()
	return programs.Serve(t, "", func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(testTimeout))
		server := tls.Server(conn, config)
		_, _ = io.Copy(server, server)
		_ = server.CloseWrite()
	}).String()
}

func TestHandoff(t *testing.T) {
	t.Parallel()
	h := listener.NewHandoff(&net.TCPAddr{Port: 1})
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Deliver(cancelled, near); err == nil {
		t.Error("a connection was delivered to nobody")
	}
	delivered := make(chan error, 1)
	go func() { delivered <- h.Deliver(context.Background(), near) }()
	if c, err := h.Accept(); err != nil || c != near {
		t.Errorf("Accept gave %v, %v", c, err)
	}
	must.Do(t, <-delivered)

	go func() { delivered <- h.Deliver(context.Background(), near) }()
	must.Do(t, h.Close())
	must.Do(t, h.Close())
	if err := <-delivered; err != net.ErrClosed {
		t.Errorf("Deliver after Close gave %v", err)
	}
	if _, err := h.Accept(); err != net.ErrClosed {
		t.Errorf("Accept after Close gave %v", err)
	}
	if h.Addr().String() != ":1" {
		t.Errorf("the address is %s", h.Addr())
	}
}
