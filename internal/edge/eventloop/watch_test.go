//go:build linux

package eventloop_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/must"
)

// watched serves a connection by steps only, and returns what they read and how it ended.
func watched(t *testing.T, prepare func(*eventloop.Conn)) (client *net.TCPConn, read <-chan []byte, end <-chan error) {
	t.Helper()
	pieces, ended := make(chan []byte, 1000), make(chan error, 1)
	to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
		prepare(c)
		var w *eventloop.Watch
		w = eventloop.NewWatch(func() {
			for more := true; more; {
				var p []byte
				var err error
				p, more, err = c.ReadShared()
				if err != nil {
					ended <- err
					task.Unpark()
					return
				}
				if len(p) > 0 {
					pieces <- bytes.Clone(p)
				}
			}
			c.Watch(w)
		})
		c.Watch(w)
		task.Park()
	})
	return dial(t, to), pieces, ended
}

// TestWatch reads by steps: single messages, more than a step reads at once, and the end.
func TestWatch(t *testing.T) {
	client, read, ended := watched(t, func(*eventloop.Conn) {})
	for range 3 {
		must.Get(client.Write([]byte("hello")))(t)
		if got := <-read; string(got) != "hello" {
			t.Fatalf("a step read %q", got)
		}
	}
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	must.Get(client.Write(sent))(t)
	var got []byte
	for len(got) < len(sent) {
		got = append(got, <-read...)
	}
	if !bytes.Equal(got, sent) {
		t.Error("other bytes came than were sent")
	}
	must.Do(t, client.CloseWrite())
	if err := <-ended; err != io.EOF {
		t.Errorf("ended with %v", err)
	}
}

// TestWatchEnds calls the step of a connection that is closed, or whose deadline passes, by its loop or another
// goroutine.
func TestWatchEnds(t *testing.T) {
	soon := func(c *eventloop.Conn) { _ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) }
	conns := make(chan *eventloop.Conn, 1)
	for _, test := range []struct {
		prepare func(*eventloop.Conn)
		end     func(*eventloop.Conn)
		want    error
	}{
		{prepare: soon, want: os.ErrDeadlineExceeded},
		{end: func(c *eventloop.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) }, want: os.ErrDeadlineExceeded},
		{end: func(c *eventloop.Conn) { c.Close() }, want: net.ErrClosed},
	} {
		client, read, ended := watched(t, func(c *eventloop.Conn) {
			if test.prepare != nil {
				test.prepare(c)
			}
			conns <- c
		})
		c := <-conns
		if test.end != nil {
			must.Get(client.Write([]byte("x")))(t)
			<-read // so the step is called again later
			test.end(c)
		}
		if err := <-ended; !errors.Is(err, test.want) {
			t.Errorf("ended with %v, want %v", err, test.want)
		}
	}
}
