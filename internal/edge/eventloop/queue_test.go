//go:build linux

package eventloop_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/must"
)

// TestQueuedWrites writes far more than the socket takes, as a task and as a goroutine: writes do not
// wait, Drain does, and everything comes in order.
func TestQueuedWrites(t *testing.T) {
	for _, away := range []bool{false, true} {
		sent := make([]byte, 8<<20)
		for i := range sent {
			sent[i] = byte(i >> 10)
		}
		result := make(chan error, 1)
		to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
			if away {
				task.Leave()
			}
			c.QueueWrites()
			for piece := range slices.Chunk(sent, 300<<10) {
				if n, err := c.Write(piece); n != len(piece) || err != nil {
					t.Errorf("a write of %d bytes took %d: %v", len(piece), n, err)
				}
				if _, err := c.Drain(task); err != nil {
					result <- err
					return
				}
				if c.Queued() {
					t.Error("something is queued after Drain")
				}
			}
			result <- nil
		})
		got := must.Get(io.ReadAll(dial(t, to)))(t)
		if err := <-result; err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes came: %v", len(got), len(sent), err)
		}
	}
}

// TestQueueLimits ends with a peer that reads nothing: Drain by its deadline, and Write when too much
// is queued. Meanwhile the loop serves others.
func TestQueueLimits(t *testing.T) {
	g := group(t, 1)
	other := dial(t, listen(t, g, echo))
	drained, full := make(chan error, 1), make(chan error, 1)
	to := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		c.QueueWrites()
		_, _ = c.Write(make([]byte, 16<<20)) // more than sockets buffer
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Drain(task)
		drained <- err
		_ = c.SetWriteDeadline(time.Time{})
		_, err = c.Write([]byte("more"))
		full <- err
	})
	silent := dial(t, to)
	for over := false; !over; {
		exchange(t, other, "x")
		select {
		case err := <-drained:
			if over = true; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Drain ended with %v", err)
			}
		default:
		}
	}
	if err := <-full; err == nil {
		t.Error("a write was queued behind 16 MiB")
	}
	must.Do(t, silent.Close())
}

// TestPark waits for another task and for a goroutine.
func TestPark(t *testing.T) {
	parked := make(chan *eventloop.Task, 1)
	to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
		one := make([]byte, 1)
		if _, err := c.Read(one); err != nil {
			return
		}
		if one[0] == 'p' {
			parked <- task
			task.Park()
		} else {
			(<-parked).Unpark()
		}
		_, _ = c.Write(one)
	})
	waiting, waker := dial(t, to), dial(t, to)
	_ = must.Get(waiting.Write([]byte("p")))(t)
	task := <-parked
	parked <- task // for the other connection
	exchange(t, waker, "w")
	must.Get(io.ReadFull(waiting, make([]byte, 1)))(t)

	again := dial(t, to)
	_ = must.Get(again.Write([]byte("p")))(t)
	(<-parked).Unpark()
	must.Get(io.ReadFull(again, make([]byte, 1)))(t)
}

// TestYield runs the tasks that are ready first, and those of Start.
func TestYield(t *testing.T) {
	order := make(chan string, 10)
	to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
		for _, name := range []string{"first", "second"} {
			task.Start(func(task *eventloop.Task) {
				order <- name
				task.Yield()
				order <- name + " again"
			})
		}
		order <- "start"
		task.Yield()
		order <- "start again"
	})
	dial(t, to)
	want := []string{"start", "first", "second", "start again", "first again", "second again"}
	var got []string
	for range want {
		got = append(got, <-order)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
