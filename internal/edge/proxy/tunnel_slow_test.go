package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
)

// mostMessages are more than fit what is on the way to a client that does not read.
const mostMessages = 30_000

// shortMessage is what a tunnel passes on in one piece.
var shortMessage = bytes.Repeat([]byte("x"), 4000)

// sendUntilFull sends short messages until there is room for none, each after pace, and returns how
// many bytes it sent.
func sendUntilFull(conn net.Conn, pace func()) (sent int) {
	defer conn.SetWriteDeadline(time.Time{})
	for range mostMessages {
		pace()
		_ = conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := conn.Write(shortMessage)
		if sent += n; err != nil {
			break
		}
	}
	return sent
}

// TestTunnelSlow sends short messages to a client that reads none of them until all on the way is
// full, and then all. Another tunnel sends a message and its echo between any two of them, so that they pass
// one by one.
func TestTunnelSlow(t *testing.T) {
	endpoints := make(chan net.Conn, 2)
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, func(conn net.Conn, read *bufio.Reader) {
		endpoints <- conn
		echoTunnel(conn, read)
	})}))
	open := func() (net.Conn, *bufio.Reader) {
		conn := must.Get(net.Dial("tcp", e.Address))(t)
		t.Cleanup(func() { conn.Close() })
		must.Do(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		must.Get(io.WriteString(conn, upgradeRequest))(t)
		read := bufio.NewReader(conn)
		must.Get(http.ReadResponse(read, nil))(t)
		return conn, read
	}
	echo := func(conn net.Conn, read io.Reader) {
		must.Get(conn.Write([]byte("hello")))(t)
		if got := make([]byte, 5); must.Get(io.ReadFull(read, got))(t) != 5 || string(got) != "hello" {
			t.Fatalf("%q came back", got)
		}
	}
	slow, slowRead := open()
	endpoint := <-endpoints
	other, otherRead := open()
	sent := sendUntilFull(endpoint, func() { echo(other, otherRead) })
	if sent == mostMessages*len(shortMessage) {
		t.Fatal("everything was taken: the client was not slow")
	}
	if n, err := io.CopyN(io.Discard, slowRead, int64(sent)); err != nil {
		t.Fatalf("%d of %d bytes came: %v", n, sent, err)
	}
	echo(slow, slowRead)
}
