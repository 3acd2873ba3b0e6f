package upstream_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// framed is a server that plays with frames, one function for each connection.
func framed(t testing.TB, plays ...func(*http2.Framer)) string {
	t.Helper()
	acts := make([]func(net.Conn), len(plays))
	for i, play := range plays {
		acts[i] = func(conn net.Conn) {
			if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
				return
			}
			framer := http2.NewFramer(conn, conn)
			framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			_ = framer.WriteSettings()
			play(framer)
		}
	}
	return script(t, acts...)
}

// untilRequest reads frames up to a request, and gives its stream.
func untilRequest(framer *http2.Framer) uint32 {
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return 0
		}
		if head, is := f.(*http2.MetaHeadersFrame); is {
			return head.StreamID
		}
	}
}

// untilEnd reads frames until the client ends.
func untilEnd(framer *http2.Framer) {
	for {
		if _, err := framer.ReadFrame(); err != nil {
			return
		}
	}
}

// status204 is a response head in HPACK.
var status204 = []byte{0x89}

// TestRefusedRequest: what the endpoint did not look at reads as a connection
// that died of age, and a fresh one serves it.
func TestRefusedRequest(t *testing.T) {
	answers := func(framer *http2.Framer) {
		for id := untilRequest(framer); id != 0; id = untilRequest(framer) {
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: status204, EndHeaders: true, EndStream: true})
		}
	}
	for _, test := range []struct {
		name string
		play func(*http2.Framer)
	}{
		{"refused", func(framer *http2.Framer) {
			_ = framer.WriteRSTStream(untilRequest(framer), http2.ErrCodeRefusedStream)
			untilEnd(framer)
		}},
		{"goAway", func(framer *http2.Framer) {
			untilRequest(framer)
			_ = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
			untilEnd(framer)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := framed(t, test.play, answers)
			w := newWorld(t, upstream.Config{})
			w.serve(h2cart(address))
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			conn := connect(t, &lease)
			_, err := conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n"))
			if err == nil {
				var head h1.ResponseHead
				err = conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits)
			}
			if !errors.Is(err, io.EOF) || !errors.Is(err, upstream.ErrRefused) || !conn.Reused() {
				t.Errorf("error %v, reused %v; want ErrRefused, an io.EOF, on a reused connection", err, conn.Reused())
			}
			conn.Close()
			conn, err = lease.Connect(t.Context(), testTimeout, true)
			must.Do(t, err)
			must.Get(conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n")))(t)
			var head h1.ResponseHead
			must.Do(t, conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits))
			conn.Release()
			lease.Done(upstream.OK)
			if stats := w.Stats(); stats.Refused != 1 || stats.Connects != 2 {
				t.Errorf("counted: %+v", stats)
			}
		})
	}
}

// TestCloseCancelsTheRequest: closing the connection of one request ends it at
// the endpoint, and leaves the others alone.
func TestCloseCancelsTheRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	address := runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(began)
			<-r.Context().Done()
			close(ended)
			return
		}
		proto(w, r)
	})
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	conn, beside := connect(t, &lease), connect(t, &lease)
	must.Get(conn.Writer.Write([]byte("GET /wait HTTP/1.1\r\nHost: cart\r\n\r\n")))(t)
	programs.Receive(t, began, "the request")
	conn.Close()
	programs.Receive(t, ended, "the end of the request")
	get(t, beside)
	beside.Release()
	lease.Done(upstream.OK)
	if got := w.state(t, address).Open; got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestSilentEndpoint: waits end in time where an endpoint never responds.
func TestSilentEndpoint(t *testing.T) {
	address := framed(t, untilEnd)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.TimedOut)
	conn := connect(t, &lease)
	defer conn.Close()
	conn.SetTimeouts(10*time.Millisecond, 10*time.Millisecond)
	must.Get(conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n")))(t)
	var head h1.ResponseHead
	if err := conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits); !errors.Is(err, h1.ErrIdle) {
		t.Errorf("error %v, want ErrIdle", err)
	}
}

// TestNoSettings: an endpoint that takes a connection and sends nothing costs no
// more than the connect timeout, for all that wait for it.
func TestNoSettings(t *testing.T) {
	quiet := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	address := script(t, quiet, quiet, quiet, quiet, quiet, quiet)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			lease, err := w.Handle(shop).Pick(upstream.PickOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer lease.Done(upstream.ConnectFailed)
			_, err = lease.Connect(t.Context(), 20*time.Millisecond, false)
			var failed *upstream.ConnectError
			if !errors.As(err, &failed) || !failed.Timeout() {
				t.Errorf("error %v, want a ConnectError that is a timeout", err)
			}
		})
	}
	running.Wait()
}
