package h2flow_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/h2flow"
)

// TestSendWindow: the smaller of the two windows bounds what is sent, and a window
// that the peer lowered below what was sent allows nothing.
func TestSendWindow(t *testing.T) {
	conn := h2flow.NewConnSendWindow()
	stream := conn.Stream()
	send := func(want, allowed int) {
		t.Helper()
		n := h2flow.Sendable(want, &stream, &conn.SendWindow)
		if n != allowed {
			t.Errorf("%d bytes may be sent, not %d", n, allowed)
		}
		stream.Take(n)
		conn.Take(n)
	}
	send(0, 0)
	send(1000, 1000)
	send(1<<20, h2flow.DefaultWindow-1000)
	send(1, 0)
	if !conn.Grow(500) {
		t.Error("a small increment is refused")
	}
	send(1, 0) // the stream's own window is empty
	if !stream.Grow(300) {
		t.Error("a small increment is refused")
	}
	send(1000, 300)
	if !stream.Grow(conn.SetInitial(10)) {
		t.Error("a lower initial window is refused")
	}
	send(1000, 0)
	fresh := conn.Stream()
	if n := h2flow.Sendable(1000, &fresh, &conn.SendWindow); n != 10 {
		t.Errorf("a new stream may send %d bytes", n)
	}
	if conn.Grow(h2flow.MaxWindow) {
		t.Error("a window beyond the maximum is accepted")
	}
}

// TestReceiveWindow: a peer may send as much as it was granted, and gets back what
// was consumed once that is worth a frame.
func TestReceiveWindow(t *testing.T) {
	w := h2flow.NewReceiveWindow(100)
	if !w.Receive(100) || w.Receive(1) {
		t.Error("the window does not bound the peer")
	}
	if n := w.Update(0); n != 0 {
		t.Errorf("%d bytes are returned before any was consumed", n)
	}
	w.Consume(40)
	if n := w.Update(50); n != 0 {
		t.Errorf("%d bytes are returned below the threshold", n)
	}
	w.Consume(20)
	if n := w.Update(50); n != 60 {
		t.Errorf("%d bytes are returned", n)
	}
	if n := w.Available(); n != 60 {
		t.Errorf("the peer may send %d bytes", n)
	}
	if n := w.Update(0); n != 0 {
		t.Errorf("%d bytes are returned twice", n)
	}
}
