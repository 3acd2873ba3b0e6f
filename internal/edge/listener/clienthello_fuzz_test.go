package listener

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

// scriptConn is a connection that only gives bytes.
type scriptConn struct {
	net.Conn
	reader *bytes.Reader
}

func (c *scriptConn) Read(p []byte) (int, error)  { return c.reader.Read(p) }
func (c *scriptConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *scriptConn) SetDeadline(time.Time) error { return nil }
func (c *scriptConn) Close() error                { return nil }

var errSeen = errors.New("seen")

// cryptoServerName reads a ClientHello with crypto/tls. It is false when that
// does not accept it.
func cryptoServerName(b []byte) (name string, accepted bool) {
	config := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, accepted = hello.ServerName, true
		return nil, errSeen
	}}
	_ = tls.Server(&scriptConn{reader: bytes.NewReader(b)}, config).Handshake()
	return name, accepted
}

// readHello reads a ClientHello that arrives in pieces.
func readHello(b []byte, piece int) (string, error) {
	var scanner helloScanner
	for n := min(piece, len(b)); ; n = min(n+piece, len(b)) {
		err := scanner.scan(b[:n])
		if err == nil {
			return helloServerName(scanner.message(b[:n]))
		}
		if !errors.Is(err, errMore) || n == len(b) {
			return "", err
		}
	}
}

// reframe cuts the message of one record into records of a size.
func reframe(flight []byte, size int) []byte {
	var out []byte
	for message := flight[5:]; len(message) > 0; {
		n := min(size, len(message))
		out = binary.BigEndian.AppendUint16(append(out, flight[:3]...), uint16(n))
		out, message = append(out, message[:n]...), message[n:]
	}
	return out
}

// FuzzClientHello compares the reader with crypto/tls: for every ClientHello
// that crypto/tls accepts, both must see the same name. It also checks that it
// does not matter in how many pieces a ClientHello arrives.
func FuzzClientHello(f *testing.F) {
	for _, config := range []*tls.Config{
		{ServerName: "a.example", CurvePreferences: []tls.CurveID{tls.X25519}},
		{ServerName: "Upper.Example", MaxVersion: tls.VersionTLS12},
		{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}},
		{ServerName: "large.example"},
	} {
		hello := pkitest.ClientHello(f, config)
		f.Add(hello)
		f.Add(reframe(hello, 50))
		f.Add(append(reframe(hello, 1000), "more"...))
		f.Add(hello[:len(hello)/2])
	}
	f.Fuzz(compareHello)
}

// FuzzServerName puts any server_name extensions into a real ClientHello, in
// records of any size. What FuzzClientHello changes is nearly always refused
// for other reasons.
func FuzzServerName(f *testing.F) {
	hello := pkitest.ClientHello(f, &tls.Config{ServerName: "a.example", CurvePreferences: []tls.CurveID{tls.X25519}})
	f.Add([]byte("\x00\x0c\x00\x00\x09a.example"), []byte{}, false, uint8(0))
	f.Add([]byte("\x00\x04\x00\x00\x01a"), []byte("\x00\x04\x00\x00\x01b"), true, uint8(7))
	f.Add([]byte("\x00\x08\x00\x00\x01a\x00\x00\x01b"), []byte{}, false, uint8(1))
	f.Add([]byte("\x00\x08\x01\x00\x01a\x00\x00\x01b"), []byte{}, false, uint8(100))
	f.Fuzz(func(t *testing.T, first, second []byte, two bool, size uint8) {
		names := [][]byte{first}
		if two {
			names = append(names, second)
		}
		if len(first)+len(second) > 8<<10 {
			return
		}
		compareHello(t, reframe(withServerNames(t, hello, names), 1+64*int(size)))
	})
}

// compareHello checks one ClientHello against crypto/tls and against itself.
func compareHello(t *testing.T, b []byte) {
	name, err := readHello(b, max(1, len(b)))
	for _, piece := range []int{1, 3, 64} {
		again, againErr := readHello(b, piece)
		if again != name || !errors.Is(againErr, err) && !errors.Is(err, againErr) {
			t.Fatalf("%q, %v at once, but %q, %v in pieces of %d", name, err, again, againErr, piece)
		}
	}
	want, accepted := cryptoServerName(b)
	if !accepted || errors.Is(err, ErrHelloTooLarge) || hasAlert(b) {
		return // crypto/tls passes over alerts that come first, and we do not
	}
	if err != nil {
		t.Fatalf("refused with %v, but crypto/tls reads %q", err, want)
	}
	if name != want {
		t.Fatalf("read %q, but crypto/tls reads %q", name, want)
	}
}

// hasAlert reports whether there is an alert between the records.
func hasAlert(b []byte) bool {
	for len(b) >= tlsRecordHeader {
		if b[0] == 0x15 {
			return true
		}
		b = b[min(len(b), tlsRecordHeader+int(binary.BigEndian.Uint16(b[3:]))):]
	}
	return false
}

// TestServerNameForms changes the extension of a real ClientHello in ways that
// two readers could take differently.
func TestServerNameForms(t *testing.T) {
	hello := pkitest.ClientHello(t, &tls.Config{ServerName: "aaaa.example", CurvePreferences: []tls.CurveID{tls.X25519}})
	extension := func(parts ...string) []byte {
		var list []byte
		for _, part := range parts {
			list = append(list, part[0])
			list = append(binary.BigEndian.AppendUint16(list, uint16(len(part)-1)), part[1:]...)
		}
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	}
	for _, tt := range []struct {
		name       string
		extensions [][]byte
		want       string
		bad        bool
	}{
		{"one", [][]byte{extension("\x00a.example")}, "a.example", false},
		{"other kind first", [][]byte{extension("\x01b.example", "\x00a.example")}, "a.example", false},
		{"other kind only", [][]byte{extension("\x01b.example")}, "", false},
		{"two names", [][]byte{extension("\x00a.example", "\x00b.example")}, "", true},
		{"two extensions", [][]byte{extension("\x00a.example"), extension("\x00b.example")}, "", true},
		{"dot", [][]byte{extension("\x00a.example.")}, "", true},
		{"empty name", [][]byte{extension("\x00")}, "", true},
		{"empty list", [][]byte{extension()}, "", true},
		{"empty extension", [][]byte{{}}, "", true},
		{"trailing byte", [][]byte{append(extension("\x00a.example"), 0)}, "", true},
		{"none", nil, "", false},
		{"ip", [][]byte{extension("\x00127.0.0.1")}, "127.0.0.1", false},
		{"nul", [][]byte{extension("\x00a\x00.example")}, "a\x00.example", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := withServerNames(t, hello, tt.extensions)
			name, err := readHello(b, len(b))
			if name != tt.want || errors.Is(err, ErrHelloMalformed) != tt.bad {
				t.Errorf("read %q, %v; want %q", name, err, tt.want)
			}
			if theirs, accepted := cryptoServerName(b); accepted == tt.bad || theirs != tt.want {
				t.Errorf("crypto/tls reads %q, %t", theirs, accepted)
			}
		})
	}
}

// withServerNames replaces the server_name extension of a ClientHello.
func withServerNames(t testing.TB, flight []byte, names [][]byte) []byte {
	t.Helper()
	r := helloReader(flight[tlsRecordHeader:])
	fixed, _ := r.take(tlsMessageHeader + 2 + 32)
	head := append([]byte(nil), fixed...)
	session, _ := r.list8()
	head = append(append(head, byte(len(session))), session...)
	suites, _ := r.list16()
	head = append(binary.BigEndian.AppendUint16(head, uint16(len(suites))), suites...)
	compression, _ := r.list8()
	head = append(append(head, byte(len(compression))), compression...)
	old, ok := r.list16()
	if !ok || len(r) != 0 {
		t.Fatal("the captured ClientHello is not as expected")
	}
	var extensions []byte
	for _, name := range names {
		extensions = append(extensions, 0, 0)
		extensions = append(binary.BigEndian.AppendUint16(extensions, uint16(len(name))), name...)
	}
	for len(old) > 0 {
		kind, _ := old.take(2)
		data, _ := old.list16()
		if binary.BigEndian.Uint16(kind) != tlsServerName {
			extensions = append(append(extensions, kind...), byte(len(data)>>8), byte(len(data)))
			extensions = append(extensions, data...)
		}
	}
	message := append(binary.BigEndian.AppendUint16(head, uint16(len(extensions))), extensions...)
	size := len(message) - tlsMessageHeader
	message[1], message[2], message[3] = byte(size>>16), byte(size>>8), byte(size)
	return append(binary.BigEndian.AppendUint16(append([]byte(nil), flight[:3]...), uint16(len(message))), message...)
}

func BenchmarkServerName(b *testing.B) {
	hello := pkitest.ClientHello(b, &tls.Config{ServerName: "shop.example.com", NextProtos: []string{"h2", "http/1.1"}})
	for _, bench := range []struct {
		name  string
		hello []byte
		piece int
	}{
		{"whole", hello, len(hello)},
		{"records of 100", reframe(hello, 100), 1 << 20},
		{"byte by byte", hello, 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.hello)))
			for b.Loop() {
				if name, err := readHello(bench.hello, bench.piece); err != nil || name != "shop.example.com" {
					b.Fatal(name, err)
				}
			}
		})
	}
}

// BenchmarkPeek looks at a ClientHello that comes over a socket, and takes it.
func BenchmarkPeek(b *testing.B) {
	hello := pkitest.ClientHello(b, &tls.Config{ServerName: "shop.example.com"})
	l, err := Listen(b.Context(), Config{Address: "127.0.0.1:0"})
	must.Do(b, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	must.Do(b, err)
	defer client.Close()
	c, err := l.AcceptConn()
	must.Do(b, err)
	defer c.Close()
	_ = c.SetDeadline(time.Time{})
	buf := make([]byte, len(hello))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Write(hello); err != nil {
			b.Fatal(err)
		}
		if peeked, err := c.Peek(); err != nil || peeked.ServerName == "" {
			b.Fatal(peeked, err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
