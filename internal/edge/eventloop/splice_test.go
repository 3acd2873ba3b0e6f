//go:build linux

package eventloop_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/must"
)

// TestPipe moves far more than pipe and sockets have room for, as a task and as a goroutine.
func TestPipe(t *testing.T) {
	for _, away := range []bool{false, true} {
		g := group(t, 1)
		sent := bytes.Repeat([]byte("0123456789abcde"), 1<<19)
		source := listen(t, g, func(_ *eventloop.Task, c *eventloop.Conn) { _, _ = c.Write(sent) })
		result := make(chan error, 1)
		front := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
			from := must.Get(task.Dial(source, time.Now().Add(patience)))(t)
			defer from.Close()
			if away {
				task.Leave()
			}
			pipe := c.Pipe(from)
			defer pipe.Close()
			for {
				if _, err := pipe.Fill(int64(len(sent))); err != nil {
					result <- err
					return
				}
				if err := pipe.Drain(); err != nil {
					result <- err
					return
				}
			}
		})
		got := must.Get(io.ReadAll(dial(t, front)))(t)
		if err := <-result; err != io.EOF || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes came: %v", len(got), len(sent), err)
		}
	}
}

// TestPipeLimits takes no more of the source than it is asked for, ends by both deadlines, and lends a
// number of pipes only, which come back also with data in them.
func TestPipeLimits(t *testing.T) {
	g := group(t, 1)
	source := listen(t, g, func(_ *eventloop.Task, c *eventloop.Conn) {
		_, _ = c.Write(make([]byte, 16<<20))
	})
	over := make(chan struct{})
	front := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		defer close(over)
		from := must.Get(task.Dial(source, time.Now().Add(patience)))(t)
		defer from.Close()
		pipe := c.Pipe(from)
		if n, err := pipe.Fill(3); n != 3 || err != nil {
			t.Errorf("took %d bytes of 3: %v", n, err)
		}
		must.Do(t, pipe.Drain())
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		var err error
		for err == nil {
			if _, err = pipe.Fill(1 << 20); err == nil {
				err = pipe.Drain()
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		pipe.Close()
		lent := []*eventloop.Pipe{}
		for p := c.Pipe(from); p != nil; p = c.Pipe(from) {
			lent = append(lent, p)
		}
		if len(lent) != 128 {
			t.Errorf("%d pipes are lent", len(lent))
		}
		_ = from.SetReadDeadline(time.Unix(1, 0))
		if _, err := lent[0].Fill(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the read deadline: %v", err)
		}
		for _, p := range lent {
			p.Close()
		}
		p := c.Pipe(from)
		if p == nil {
			t.Fatal("no pipe came back")
		}
		p.Close()
	})
	conn := dial(t, front)
	must.Get(io.ReadFull(conn, make([]byte, 3)))(t)
	<-over
}
