//go:build unix

package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// turning is a connection whose ends are paired, and its other side.
func turning(t *testing.T, times Timeouts) (*Reader, *Writer, *net.TCPConn) {
	t.Helper()
	near, far := programs.Pipe(t)
	raw := must.Get(near.SyscallConn())(t)
	pool := new(BufferPool)
	r, w := NewReader(near, pool, times), NewWriter(near, pool, times)
	r.UseRawConn(raw)
	return r, w, far
}

func ask(t *testing.T, r *Reader, w *Writer, text string) {
	t.Helper()
	must.Do(t, r.DeferWrite(w, []byte(text)))
}

// TestTurns: requests and responses take turns on one connection.
func TestTurns(t *testing.T) {
	r, w, far := turning(t, DefaultTimeouts())
	defer r.Close()
	limits := DefaultLimits()
	got := make(chan string)
	go func() {
		buf := make([]byte, 100)
		for range 3 {
			n, err := far.Read(buf)
			got <- string(buf[:n])
			if err == nil {
				_, _ = io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		}
	}()
	for _, text := range []string{"one", "two", "three"} {
		ask(t, r, w, text)
		done := make(chan string)
		go func() { done <- <-got }()
		var head ResponseHead
		if err := r.ReadResponse(&head, RequestInfo{}, &limits); err != nil || head.Status != 204 {
			t.Fatalf("%d %v", head.Status, err)
		}
		if said := <-done; said != text {
			t.Errorf("the other side got %q", said)
		}
	}
}

// TestTurnEnds: how a wait for a response can end without one.
func TestTurnEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(near net.Conn, far *net.TCPConn) error
		want func(error) bool
	}{
		{"closed", func(_ net.Conn, far *net.TCPConn) error { return far.CloseWrite() }, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"reset", func(_ net.Conn, far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) },
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "reset") }},
		{"too late", func(net.Conn, *net.TCPConn) error { return nil }, func(err error) bool { return errors.Is(err, ErrIdle) }},
		{"given up", func(near net.Conn, _ *net.TCPConn) error { return near.Close() }, func(err error) bool { return errors.Is(err, net.ErrClosed) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			times := DefaultTimeouts()
			if c.name == "too late" {
				times.Idle = 20 * time.Millisecond
			}
			r, w, far := turning(t, times)
			defer r.Close()
			limits := DefaultLimits()
			ask(t, r, w, "request")
			ended := make(chan error, 1)
			go func() {
				_, err := io.ReadFull(far, make([]byte, len("request")))
				ended <- errors.Join(err, c.end(r.conn, far))
			}()
			var head ResponseHead
			if err := r.ReadResponse(&head, RequestInfo{}, &limits); !c.want(err) {
				t.Errorf("got %v", err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTurnLarge: a request that the socket does not take at once arrives whole.
func TestTurnLarge(t *testing.T) {
	r, w, far := turning(t, DefaultTimeouts())
	defer r.Close()
	must.Do(t, r.conn.(*net.TCPConn).SetWriteBuffer(4<<10))
	limits := DefaultLimits()
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	got := make(chan bool, 1)
	go func() {
		buf := make([]byte, len(text))
		_, err := io.ReadFull(far, buf)
		got <- err == nil && bytes.Equal(buf, []byte(text))
		_, _ = io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n")
	}()
	ask(t, r, w, text)
	var head ResponseHead
	must.Do(t, r.ReadResponse(&head, RequestInfo{}, &limits))
	if !<-got {
		t.Error("it did not arrive as it was sent")
	}
}

// TestTurnDeadWriter: a write to a connection that the other side has reset is
// an error of the side that is written to.
func TestTurnDeadWriter(t *testing.T) {
	r, w, far := turning(t, DefaultTimeouts())
	defer r.Close()
	must.Do(t, errors.Join(far.SetLinger(0), far.Close()))
	// The reset has arrived when a read fails with it.
	if _, err := r.conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	limits := DefaultLimits()
	ask(t, r, w, "request")
	var head ResponseHead
	var write *WriteError
	if err := r.ReadResponse(&head, RequestInfo{}, &limits); !errors.As(err, &write) {
		t.Errorf("got %v", err)
	}
}
