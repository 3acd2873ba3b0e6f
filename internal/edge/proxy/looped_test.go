//go:build linux

package proxy_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// startHTTP2 serves a table to connections of HTTP/2 on an event loop. stayed gets for each request whether it
// was on that loop until its end.
func startHTTP2(t *testing.T, table func() *route.Table) (client *frames, stayed chan bool) {
	t.Helper()
	stayed = make(chan bool, 100)
	var server *h2.Server
	ready := make(chan struct{})
	// The loop is there first, because it ends last.
	address := edgetest.ServeOnLoops(t, 1, h1.DefaultTimeouts().Head, func(conn net.Conn) {
		<-ready
		server.ServeConn(t.Context(), conn)
	})
	e := edgetest.StartProxy(t, table(), proxy.Accepted{})
	server = must.Get(h2.New(h2.Config{Handler: &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(s bridge.Stream, conn net.Conn) {
		e.ServeStream(conn, edgetest.Accepted(conn, proxy.Accepted{Protocol: "HTTP/2", Gone: s.Context()}))
		stayed <- conn.(interface{ Task() *eventloop.Task }).Task().OnLoop()
	}}}))(t)
	t.Cleanup(server.Close)
	close(ready)
	client = &frames{t: t, conn: must.Get(net.Dial("tcp", address))(t), next: 1}
	t.Cleanup(func() { client.conn.Close() })
	must.Do(t, client.conn.SetDeadline(time.Now().Add(30*time.Second)))
	client.framer = http2.NewFramer(&client.out, client.conn)
	client.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	client.hpack = hpack.NewEncoder(&client.block)
	client.out.WriteString(http2.ClientPreface)
	must.Do(t, client.framer.WriteSettings())
	return client, stayed
}

// frames is a client of HTTP/2 that sends its frames together, on demand.
type frames struct {
	t          *testing.T
	conn       net.Conn
	out, block bytes.Buffer
	framer     *http2.Framer
	hpack      *hpack.Encoder
	next       uint32
}

// post adds a request whose body has no known length, and its first data.
func (f *frames) post(data string, end bool) (id uint32) {
	f.block.Reset()
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}, {"te", "trailers"}} {
		must.Do(f.t, f.hpack.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	id = f.next
	f.next += 2
	must.Do(f.t, f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block.Bytes(), EndHeaders: true}))
	must.Do(f.t, f.framer.WriteData(id, end, []byte(data)))
	return id
}

// send sends what was added.
func (f *frames) send() {
	must.Get(f.conn.Write(f.out.Bytes()))(f.t)
	f.out.Reset()
}

// response reads up to the end of a stream, and returns the data.
func (f *frames) response(id uint32) string {
	f.t.Helper()
	var body strings.Builder
	for {
		switch frame := must.Get(f.framer.ReadFrame())(f.t).(type) {
		case *http2.DataFrame:
			body.Write(frame.Data())
			if frame.StreamID == id && frame.StreamEnded() {
				return body.String()
			}
		case *http2.MetaHeadersFrame:
			if frame.StreamID == id && frame.StreamEnded() {
				return body.String()
			}
		case *http2.RSTStreamFrame:
			f.t.Fatalf("stream %d was reset: %v", frame.StreamID, frame.ErrCode)
		}
	}
}

// http2Backend is edgetest.Backend for HTTP/2 without TLS.
func http2Backend(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	listener := programs.Listen(t, "")
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	programs.Background(t, func() { _ = server.Serve(listener) }, func() { server.Close() })
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// eachProtocol runs a test with endpoints of both protocols.
func eachProtocol(t *testing.T, handler func(t *testing.T) http.HandlerFunc, run func(t *testing.T, client *frames, stayed chan bool)) {
	t.Run("http1", func(t *testing.T) {
		client, stayed := startHTTP2(t, func() *route.Table {
			return edgetest.Table([]netip.AddrPort{edgetest.Backend(t, handler(t))})
		})
		run(t, client, stayed)
	})
	t.Run("h2c", func(t *testing.T) {
		client, stayed := startHTTP2(t, func() *route.Table {
			table := edgetest.Table([]netip.AddrPort{http2Backend(t, handler(t))})
			table.Backends[0].Transport.Protocol = route.ProtocolH2C
			return table
		})
		run(t, client, stayed)
	})
}

// TestArrivedBodies keeps requests on their event loop whose body came with the head, as that of a unary
// call of gRPC does, and so the connection.
func TestArrivedBodies(t *testing.T) {
	echo := func(*testing.T) http.HandlerFunc { return edgetest.Echo }
	eachProtocol(t, echo, func(t *testing.T, client *frames, stayed chan bool) {
		for range 5 {
			var ids []uint32
			for range 3 { // in one turn of the loop
				ids = append(ids, client.post("hello", true))
			}
			client.send()
			for _, id := range ids[len(ids)-1:] {
				if body := client.response(id); !strings.Contains(body, "POST / hello\n") {
					t.Errorf("stream %d: %q", id, body)
				}
			}
			for range ids {
				if !programs.Receive(t, stayed, "the end of a request") {
					t.Error("a request has left its event loop")
				}
			}
		}
	})
}

// TestArrivingBodies has requests leave the event loop whose body comes later: the response may
// be there before.
func TestArrivingBodies(t *testing.T) {
	echo := func(t *testing.T) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex() // HTTP/2 always is
			buf := make([]byte, 5)
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(buf)
			_ = control.Flush()
			_, _ = io.Copy(w, r.Body)
		}
	}
	eachProtocol(t, echo, func(t *testing.T, client *frames, stayed chan bool) {
		for range 6 {
			id := client.post("hello", false)
			client.send()
			for got := ""; got != "hello"; { // before the rest is sent
				if data, ok := must.Get(client.framer.ReadFrame())(t).(*http2.DataFrame); ok {
					got += string(data.Data())
				}
			}
			must.Do(t, client.framer.WriteData(id, true, []byte(" world")))
			client.send()
			if body := client.response(id); body != " world" {
				t.Errorf("the rest is %q", body)
			}
			if programs.Receive(t, stayed, "the end of a request") {
				t.Error("a request waited for its body on its event loop")
			}
		}
	})
}

// TestLargeArrivedBodies sends bodies that have come completely and are too large for the endpoint's
// windows, or for a turn of the loop.
func TestLargeArrivedBodies(t *testing.T) {
	const size = 60_000
	echo := func(*testing.T) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "done")
		}
	}
	eachProtocol(t, echo, func(t *testing.T, client *frames, stayed chan bool) {
		id := client.post("", false)
		for left := size; left > 0; left -= 15_000 {
			must.Do(t, client.framer.WriteData(id, left == 15_000, bytes.Repeat([]byte("x"), 15_000)))
		}
		client.send()
		if body := client.response(id); body != "done" {
			t.Errorf("got %q", body)
		}
		<-stayed
	})
}
