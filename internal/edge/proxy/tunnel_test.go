package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
)

const upgradeRequest = "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

// echoTunnel changes the protocol, returns what comes, and says goodbye after its end.
func echoTunnel(conn net.Conn, read *bufio.Reader) {
	if _, err := http.ReadRequest(read); err != nil {
		return
	}
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	if _, err := io.Copy(conn, read); err == nil {
		_, _ = io.WriteString(conn, "bye")
	}
}

// tunnelEnd is a client's connection that can end its own direction.
type tunnelEnd interface {
	net.Conn
	CloseWrite() error
}

// tunnels starts an edge with one way in for each transport, and returns how to open a tunnel
// there, behind its 101.
func tunnels(t *testing.T, options ...func(*proxy.Config)) map[string]func(t *testing.T) (tunnelEnd, io.Reader) {
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, echoTunnel)}), options...)
	authority := pkitest.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "a.example").TLS(t)}}
	encrypted := e.Address
	if edgetest.Loops() > 0 {
		encrypted = edgetest.ServeOnLoops(t, edgetest.Loops(), h1.DefaultTimeouts().Head, func(conn net.Conn) {
			secure := tls.Server(conn, config)
			if secure.Handshake() != nil {
				conn.Close()
				return
			}
			e.ServeHTTP1(secure, edgetest.Accepted(conn, proxy.Accepted{TLS: true}))
		})
		t.Cleanup(e.Drain)
	}
	open := func(t *testing.T, conn tunnelEnd) (tunnelEnd, io.Reader) {
		t.Cleanup(func() { conn.Close() })
		must.Do(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		must.Get(io.WriteString(conn, upgradeRequest))(t)
		read := bufio.NewReader(conn)
		if response := must.Get(http.ReadResponse(read, nil))(t); response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("status %d", response.StatusCode)
		}
		return conn, read
	}
	ways := map[string]func(t *testing.T) (tunnelEnd, io.Reader){"plain": func(t *testing.T) (tunnelEnd, io.Reader) {
		return open(t, must.Get(net.Dial("tcp", e.Address))(t).(*net.TCPConn))
	}}
	if encrypted != e.Address {
		ways["encrypted"] = func(t *testing.T) (tunnelEnd, io.Reader) {
			return open(t, must.Get(tls.Dial("tcp", encrypted, &tls.Config{RootCAs: authority.Pool, ServerName: "a.example"}))(t))
		}
	}
	return ways
}

// TestTunnels passes messages, and far more than fits the buffers in both directions at once, and each
// side's end by itself.
func TestTunnels(t *testing.T) {
	records := make(chan [2]int64, 10)
	ways := tunnels(t, func(c *proxy.Config) {
		c.Observe = func(r *proxy.Record) { records <- [2]int64{r.Received, r.Sent} }
	})
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			conn, read := open(t)
			for _, size := range []int{1, 100, 4095, 4096, 4097, 40_000, 1, 70_000, 3} {
				message := bytes.Repeat([]byte{byte(size)}, size)
				must.Get(conn.Write(message))(t)
				got := make([]byte, size)
				must.Get(io.ReadFull(read, got))(t)
				if !bytes.Equal(got, message) {
					t.Fatalf("a message of %d bytes came back as others", size)
				}
			}
			sent := make(chan error, 1)
			go func() {
				_, err := conn.Write(longBody)
				if err == nil {
					err = conn.CloseWrite()
				}
				sent <- err
			}()
			got, err := io.ReadAll(read)
			if want := string(longBody) + "bye"; err != nil || string(got) != want {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(want), err)
			}
			must.Do(t, <-sent)
			want := int64(1 + 100 + 4095 + 4096 + 4097 + 40_000 + 1 + 70_000 + 3 + len(longBody))
			if record := <-records; record != [2]int64{want, want + 3} {
				t.Errorf("the record has %v bytes, want %d and 3 more", record, want)
			}
		})
	}
}

// TestTunnelUnread leaves other tunnels alone while a client reads nothing, and ends that one with
// its client.
func TestTunnelUnread(t *testing.T) {
	ended := make(chan struct{}, 10)
	for name, open := range tunnels(t, func(c *proxy.Config) { c.Observe = func(*proxy.Record) { ended <- struct{}{} } }) {
		t.Run(name, func(t *testing.T) {
			silent, _ := open(t)
			must.Do(t, silent.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
			for {
				if _, err := silent.Write(longBody); err != nil {
					break // everything on the way is full
				}
			}
			for range 3 {
				conn, read := open(t)
				must.Get(conn.Write([]byte("hello")))(t)
				must.Get(io.ReadFull(read, make([]byte, 5)))(t)
				must.Do(t, conn.Close())
				<-ended
			}
			_ = silent.Close() // over TLS it reports once more that the write timed out
			<-ended
		})
	}
}
