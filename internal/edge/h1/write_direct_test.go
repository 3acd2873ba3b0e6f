//go:build unix

package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// timed counts the deadlines that are set on a connection.
type timed struct {
	*net.TCPConn
	reads, writes int
}

func (c *timed) SetReadDeadline(t time.Time) error {
	c.reads++
	return c.TCPConn.SetReadDeadline(t)
}

func (c *timed) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.TCPConn.SetWriteDeadline(t)
}

// direct is a Writer to a socket, and the socket's other end.
func direct(t *testing.T, times Timeouts) (*Writer, *timed, *net.TCPConn) {
	t.Helper()
	near, far := programs.Pipe(t)
	conn := &timed{TCPConn: near}
	w := NewWriter(conn, new(BufferPool), times)
	w.UseRawConn(must.Get(near.SyscallConn())(t))
	return w, conn, far
}

// large does not fit the buffers of two sockets.
var large = bytes.Repeat([]byte("0123456789abcdef"), 1<<20)

// TestDirectWrite: what a socket takes at once is written without a deadline, in one
// piece or in several, and what has to wait is written with one.
func TestDirectWrite(t *testing.T) {
	w, conn, far := direct(t, DefaultTimeouts())
	must.Do(t, w.Queue([]byte("one ")))
	must.Do(t, w.Queue([]byte("two ")))
	must.Do(t, w.Flush())
	must.Get(w.Write([]byte("three")))(t)
	if conn.writes != 0 {
		t.Errorf("%d deadlines were set for a few bytes", conn.writes)
	}
	read := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(far)
		read <- all
	}()
	must.Get(w.Write(large))(t)
	if conn.writes != 1 {
		t.Errorf("%d deadlines were set for a write that waits", conn.writes)
	}
	must.Do(t, conn.CloseWrite())
	if got, want := <-read, "one two three"+string(large); string(got) != want {
		t.Errorf("the other side got %d bytes, not %d, or others", len(got), len(want))
	}
}

// TestDirectWriteTimeout: a peer that reads nothing ends a write in time, and a deadline
// that passed in an earlier write does not end the next one.
func TestDirectWriteTimeout(t *testing.T) {
	times := DefaultTimeouts()
	times.Write = 10 * time.Millisecond
	w, conn, far := direct(t, times)
	var failed *WriteError
	if _, err := w.Write(large); !errors.As(err, &failed) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a write to a peer that does not read ended with %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, far) }()
	must.Do(t, conn.TCPConn.SetWriteDeadline(time.Unix(1, 0)))
	w.wait = time.Minute
	must.Get(w.Write(large))(t)
	must.Do(t, conn.Close())
	if _, err := w.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write to a closed connection ended with %v", err)
	}
}

// TestWriterIsReused: a Writer for another connection has nothing of the one before.
func TestWriterIsReused(t *testing.T) {
	w, conn, _ := direct(t, DefaultTimeouts())
	must.Do(t, w.Queue([]byte("secret")))
	must.Do(t, conn.Close())
	w.Reset()
	next, far := programs.Pipe(t)
	w.Init(next, new(BufferPool), DefaultTimeouts())
	must.Get(w.Write([]byte("public")))(t)
	must.Do(t, next.CloseWrite())
	if got, _ := io.ReadAll(far); string(got) != "public" {
		t.Errorf("the next connection got %q", got)
	}
}

// TestInheritDeadline: the first head has the deadline that the connection had before,
// which is not set again; the next head has one of its own.
func TestInheritDeadline(t *testing.T) {
	near, far := programs.Pipe(t)
	conn := &timed{TCPConn: near}
	limits := DefaultLimits()
	r := NewReader(conn, new(BufferPool), DefaultTimeouts())
	defer r.Close()
	until := time.Now().Add(time.Minute)
	must.Do(t, near.SetReadDeadline(until))
	r.InheritDeadline(until)
	must.Get(io.WriteString(far, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))(t)
	var head Head
	must.Do(t, r.ReadRequest(&head, &limits))
	if conn.reads != 0 {
		t.Errorf("the deadline of the first head was set %d times", conn.reads)
	}
	must.Get(io.WriteString(far, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"))(t)
	must.Do(t, r.ReadRequest(&head, &limits))
	if conn.reads != 1 {
		t.Errorf("the deadline of the second head was set %d times", conn.reads)
	}
}

// TestInheritedDeadlineEnds: it ends the wait for the first head, and for its rest.
func TestInheritedDeadlineEnds(t *testing.T) {
	for _, start := range []string{"", "GET / HT"} {
		near, far := programs.Pipe(t)
		r := NewReader(near, new(BufferPool), DefaultTimeouts())
		defer r.Close()
		until := time.Now().Add(20 * time.Millisecond)
		must.Do(t, near.SetReadDeadline(until))
		r.InheritDeadline(until)
		must.Get(io.WriteString(far, start))(t)
		var head Head
		limits := DefaultLimits()
		if err := r.ReadRequest(&head, &limits); !errors.Is(err, ErrIdle) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: %v", start, err)
		}
	}
}
