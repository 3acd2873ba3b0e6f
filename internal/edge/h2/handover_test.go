package h2_test

import (
	"context"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestTakeHead: a handler can take the head with its buffer. It gets the body by Read then,
// and no head once it has read some of it.
func TestTakeHead(t *testing.T) {
	const head = "POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\n"
	type taker interface{ TakeHead() []byte }
	got := make(chan string, 2)
	pool := new(h1.BufferPool)
	s := start(t, h2.Config{Handler: &bridge.Handler{Pool: pool, Serve: func(_ bridge.Stream, conn net.Conn) {
		defer conn.Close()
		text := ""
		if taken := conn.(taker).TakeHead(); taken != nil {
			text = "taken " + string(taken)
			pool.Put(taken)
		}
		if again := conn.(taker).TakeHead(); again != nil {
			text += "again " + string(again)
		}
		rest, err := io.ReadAll(conn)
		if err != nil {
			t.Error(err)
		}
		got <- text + string(rest)
	}}}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, false, ":method: POST", ":path: /a", "content-length: 5"))
	must.Do(t, p.WriteData(1, true, []byte("hello")))
	if text, want := <-got, "taken "+head+"hello"; text != want {
		t.Errorf("the handler got %q, not %q", text, want)
	}
}

// TestReadHeadIsNotTaken: what was read is not given away.
func TestReadHeadIsNotTaken(t *testing.T) {
	taken := make(chan []byte, 1)
	s := start(t, h2.Config{Handler: &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(_ bridge.Stream, conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 3)); err != nil {
			t.Error(err)
		}
		taken <- conn.(interface{ TakeHead() []byte }).TakeHead()
	}}}, nil)
	must.Do(t, dial(t, s).open(1, true))
	if head := <-taken; head != nil {
		t.Errorf("a part of the head was given away: %q", head)
	}
}

// TestCloseOnCancel: a connection is closed when the client cancels the request, unless
// the handler is done with it.
func TestCloseOnCancel(t *testing.T) {
	type canceler interface {
		CloseOnCancel(net.Conn)
		KeepOnCancel() bool
	}
	for _, keeps := range []bool{false, true} {
		near, far := programs.Pipe(t)
		ready, kept := make(chan struct{}), make(chan bool)
		s := start(t, h2.Config{Handler: lasting(func(ctx context.Context) {
			c := ctx.(canceler)
			c.CloseOnCancel(near)
			if keeps && !c.KeepOnCancel() {
				t.Error("it was closed before the client cancelled")
			}
			close(ready)
			<-ctx.Done()
			kept <- c.KeepOnCancel()
			c.CloseOnCancel(near) // it is too late to wait
		})}, nil)
		p := dial(t, s)
		must.Do(t, p.open(1, true))
		bridgetest.Within(t, "the handler", ready)
		if keeps {
			must.Get(near.Write([]byte("kept")))(t)
		}
		must.Do(t, p.WriteRSTStream(1, http2.ErrCodeCancel))
		if <-kept {
			t.Error("a connection is kept after the client cancelled")
		}
		got, err := io.ReadAll(far) // until it is closed
		if want := map[bool]string{true: "kept"}[keeps]; err != nil || string(got) != want {
			t.Errorf("keeps %t: got %q, %v", keeps, got, err)
		}
	}
}
