package listener_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func helloFor(t testing.TB, name string) []byte {
	return pkitest.ClientHello(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
}

// inRecords cuts a ClientHello into records of at most size bytes.
func inRecords(flight []byte, size int) []byte {
	var out []byte
	for message := flight[5:]; len(message) > 0; {
		n := min(size, len(message))
		out = append(out, flight[:3]...)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out, message = append(out, message[:n]...), message[n:]
	}
	return out
}

func TestPeek(t *testing.T) {
	t.Parallel()
	hello := helloFor(t, "Shop.Example")
	l := open(t, listener.Config{})
	for _, tt := range []struct {
		name  string
		sent  string
		proto listener.Protocol
		sni   string
		err   error
	}{
		{"tls", string(hello), listener.ProtocolTLS, "Shop.Example", nil},
		{"tls without name", string(helloFor(t, "")), listener.ProtocolTLS, "", nil},
		{"tls and more", string(hello) + "more", listener.ProtocolTLS, "Shop.Example", nil},
		{"records of 100", string(inRecords(hello, 100)), listener.ProtocolTLS, "Shop.Example", nil},
		{"records of 1", string(inRecords(hello[:5+200], 1)) + string(inRecords(append(hello[:5:5], hello[5+200:]...), 1000)), listener.ProtocolTLS, "Shop.Example", nil},
		{"get", "GET / HTTP/1.1\r\n", listener.ProtocolHTTP1, "", nil},
		{"one letter", "G", listener.ProtocolHTTP1, "", nil},
		{"post", "PO", listener.ProtocolHTTP1, "", nil},
		{"prefix of h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", listener.ProtocolHTTP1, "", nil},
		{"h2", preface + "rest", listener.ProtocolHTTP2, "", nil},
		{"other", "\x00\x01", listener.ProtocolOther, "", nil},
		{"sslv2", "\x80\x2e\x01", listener.ProtocolOther, "", nil},
		{"alert", "\x15\x03\x01\x00\x02\x01\x00", listener.ProtocolOther, "", nil},
		{"empty record", "\x16\x03\x01\x00\x00", listener.ProtocolTLS, "", listener.ErrHelloMalformed},
		{"server hello", "\x16\x03\x01\x00\x04\x02\x00\x00\x00", listener.ProtocolTLS, "", listener.ErrHelloMalformed},
		{"huge record", "\x16\x03\x01\x40\x01", listener.ProtocolTLS, "", listener.ErrHelloMalformed},
		{"record to the limit", "\x16\x03\x01\x40\x00", listener.ProtocolTLS, "", listener.ErrHelloTooLarge},
		{"huge message", "\x16\x03\x01\x00\x04\x01\x01\x00\x00", listener.ProtocolTLS, "", listener.ErrHelloTooLarge},
		{"zeros in records of 1", "\x16\x03\x01\x00\x01\x01" + strings.Repeat("\x16\x03\x01\x00\x01\x00", 2) + "\x16\x03\x01\x00\x01\xff" +
			strings.Repeat("\x16\x03\x01\x00\x01\x00", 255), listener.ProtocolTLS, "", listener.ErrHelloMalformed},
		{"other record between", string(inRecords(hello, 100)[:105]) + "\x15\x03\x01\x00\x02\x01\x00", listener.ProtocolTLS, "", listener.ErrHelloMalformed},
	} {
		for _, pieces := range [][][]byte{{[]byte(tt.sent)}, bytes.SplitAfter([]byte(tt.sent), nil)} {
			client := connect(t, l)
			c := accept(t, l)
			sending := make(chan error, 1)
			go func() { sending <- write(client, pieces) }()
			got, err := c.Peek()
			if got.Protocol != tt.proto || got.ServerName != tt.sni || !errors.Is(err, tt.err) {
				t.Errorf("%s in %d pieces: %s %q, %v; want %s %q, %v", tt.name, len(pieces), got.Protocol, got.ServerName, err, tt.proto, tt.sni, tt.err)
			}
			// Nothing was taken.
			receive(t, c, tt.sent)
			must.Do(t, <-sending)
			send(t, client, []byte("after"))
			receive(t, c, "after")
			c.Close()
			client.Close()
		}
	}
}

// write sends pieces, each by itself.
func write(conn net.Conn, pieces [][]byte) error {
	for _, piece := range pieces {
		if _, err := conn.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// TestPeekSplitEverywhere sends a ClientHello in two segments, cut at each
// byte, and in two records, cut at each byte.
func TestPeekSplitEverywhere(t *testing.T) {
	t.Parallel()
	hello := pkitest.ClientHello(t, &tls.Config{ServerName: "a.example", CurvePreferences: []tls.CurveID{tls.X25519}})
	l := open(t, listener.Config{})
	check := func(what string, at int, pieces ...[]byte) {
		client := connect(t, l)
		c := accept(t, l)
		defer client.Close()
		defer c.Close()
		sending := make(chan error, 1)
		go func() { sending <- write(client, pieces) }()
		if got, err := c.Peek(); err != nil || got.ServerName != "a.example" || got.Protocol != listener.ProtocolTLS {
			t.Fatalf("%s at %d: %+v, %v", what, at, got, err)
		}
		must.Do(t, <-sending)
		receive(t, c, string(bytes.Join(pieces, nil)))
	}
	for at := 1; at < len(hello); at++ {
		check("segments", at, hello[:at], hello[at:])
	}
	for at := 1; at < len(hello)-5; at++ {
		check("records", at, inRecords(hello[:5+at], at), inRecords(append(hello[:5:5], hello[5+at:]...), len(hello)))
	}
}

// TestPeekTwice looks again, also after a PROXY header.
func TestPeekTwice(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{Proxy: listener.ProxyRequire, TrustedProxies: loopback})
	hello := helloFor(t, "a.example")
	client := connect(t, l)
	send(t, client, append(proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2"), hello...))
	c := accept(t, l)
	for range 2 {
		if got, err := c.Peek(); err != nil || got.ServerName != "a.example" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	receive(t, c, string(hello))
}

// TestPeekStall sends a part and stalls: each way to look ends with the
// listener's deadline, and so does a plain Read.
func TestPeekStall(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{HeaderTimeout: 20 * time.Millisecond})
	hello := helloFor(t, "a.example")
	for _, sent := range []string{"", "\x16", string(hello[:5]), string(hello[:len(hello)-1]), string(inRecords(hello, 1)[:60]), "P", preface[:23]} {
		client := connect(t, l)
		c := accept(t, l)
		send(t, client, []byte(sent))
		var timeout net.Error
		if _, err := c.Peek(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%q: Peek ended with %v", sent, err)
		}
	}
	connect(t, l)
	var timeout net.Error
	if _, err := accept(t, l).Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("Read ended with %v", err)
	}
	// The next owner's deadline replaces the listener's.
	client := connect(t, l)
	c := accept(t, l)
	must.Do(t, c.SetReadDeadline(time.Time{}))
	received := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, 1))
		received <- err
	}()
	stalled := connect(t, l)
	_, err := accept(t, l).Peek() // takes as long as the deadline of c would have
	if err == nil {
		t.Error("a stalled connection was read")
	}
	stalled.Close()
	send(t, client, []byte("x"))
	must.Do(t, <-received)
}

func TestPeekGone(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	for _, tt := range []struct {
		sent string
		want error
	}{
		{"", io.EOF}, {"P", io.ErrUnexpectedEOF}, {"\x16\x03", io.ErrUnexpectedEOF},
	} {
		client := connect(t, l)
		send(t, client, []byte(tt.sent))
		must.Do(t, client.Close())
		if _, err := accept(t, l).Peek(); !errors.Is(err, tt.want) {
			t.Errorf("%q: Peek ended with %v, want %v", tt.sent, err, tt.want)
		}
	}
	// Close from elsewhere ends a Peek that waits.
	connect(t, l)
	c := accept(t, l)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Peek()
		ended <- err
	}()
	must.Do(t, c.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Peek ended with %v", err)
	}
}
