package listener_test

import (
	"context"
	"io"
	"testing"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

// Serve handles the connections that came before it and those that come later, each
// once, and returns after a drain.
func TestServe(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{Hooks: count.hooks()})
	handled := make(chan *listener.Conn, 16)
	ended := make(chan struct{})
	early := connect(t, l)
	go func() {
		defer close(ended)
		l.Serve(func(c *listener.Conn) { handled <- c })
	}()
	first := <-handled
	send(t, early, []byte("early"))
	receive(t, first, "early")
	conns := []*listener.Conn{first}
	for range 5 {
		client := connect(t, l)
		c := <-handled
		send(t, c, []byte("late"))
		receive(t, client, "late")
		conns = append(conns, c)
	}
	if live := l.Live(); live != len(conns) {
		t.Errorf("%d connections are live, and %d were handled", live, len(conns))
	}
	notified := 0
	report := l.Drain(context.Background(), func(c *listener.Conn) {
		notified++
		_ = c.Close()
	})
	<-ended
	if notified != len(conns) || report.Closed != len(conns) || len(handled) > 0 {
		t.Errorf("%d of %d connections were notified, %d are left: %+v", notified, len(conns), len(handled), report)
	}
	count.await(t, "all opened and closed", func() bool { return count.opened == len(conns) && count.closed == len(conns) })
}

// Limits hold for connections that a handler gets.
func TestServeLimits(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{MaxConnsPerSource: 1, Hooks: count.hooks()})
	handled := make(chan *listener.Conn, 16)
	go l.Serve(func(c *listener.Conn) { handled <- c })
	connect(t, l)
	first := <-handled
	expectRefused(t, l, "")
	count.awaitRefused(t, listener.RefusedSource, 1)
	_ = first.Close()
	connect(t, l)
	_ = (<-handled).Close()
}

// A wait for the client's bytes ends with the first of them, and with io.EOF after
// the last one.
func TestAwaitRead(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	client := connect(t, l)
	c := accept(t, l)
	send(t, client, []byte("x"))
	must.Do(t, client.CloseWrite())
	must.Do(t, c.AwaitRead())
	receive(t, c, "x")
	if err := c.AwaitRead(); err != io.EOF {
		t.Errorf("the wait after the end gives %v, not io.EOF", err)
	}
}
