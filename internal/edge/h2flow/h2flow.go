// Package h2flow is the flow control of HTTP/2 (RFC 9113 section 5.2). Package
// h2 uses it as a server, towards clients, and package h2client as a client,
// towards endpoints, so both sides of the edge count in the same way.
//
// Every stream has a window in each direction, and so has the connection as a
// whole. A DATA frame counts against both, with its padding. A [SendWindow] is
// what the peer still accepts, a [ReceiveWindow] what the peer may still send.
//
// The types do not lock: the mutex that guards a stream or a connection guards
// its windows too. They do not write frames either: the caller sends
// WINDOW_UPDATE with the increment that [ReceiveWindow.Update] returns.
package h2flow

const (
	// MaxWindow is the largest window. A peer that grants more breaks the
	// protocol (RFC 9113 section 6.9.1).
	MaxWindow = 1<<31 - 1
	// DefaultWindow is the size of every window before SETTINGS or
	// WINDOW_UPDATE change it (RFC 9113 section 6.9.2).
	DefaultWindow = 1<<16 - 1
)

// SendWindow is the number of bytes that the peer accepts. It becomes negative
// when the peer lowers the initial window after the bytes were sent (RFC 9113
// section 6.9.2); nothing is sent then until WINDOW_UPDATE makes it positive
// again.
type SendWindow struct{ size int64 }

// Grow adds an increment, which is negative when the peer lowered the initial
// window. It reports whether the window is still valid.
func (w *SendWindow) Grow(increment int64) bool {
	w.size += increment
	return w.size <= MaxWindow
}

// Take uses up bytes that are being sent.
func (w *SendWindow) Take(n int) { w.size -= int64(n) }

// Sendable returns how many of the wanted bytes the stream and its connection
// allow, without taking them.
func Sendable(want int, stream, conn *SendWindow) int {
	return int(max(min(int64(want), stream.size, conn.size), 0))
}

// ConnSendWindow is the send window of a connection, with the initial window
// that its streams start with.
type ConnSendWindow struct {
	SendWindow
	initial int64
}

// NewConnSendWindow returns the send window of a connection before the peer's
// first SETTINGS.
func NewConnSendWindow() ConnSendWindow {
	return ConnSendWindow{SendWindow: SendWindow{DefaultWindow}, initial: DefaultWindow}
}

// Stream returns the send window of a new stream.
func (w *ConnSendWindow) Stream() SendWindow { return SendWindow{w.initial} }

// SetInitial applies SETTINGS_INITIAL_WINDOW_SIZE. It returns the change by
// which the window of every open stream grows. The window of the connection
// stays.
func (w *ConnSendWindow) SetInitial(initial uint32) (change int64) {
	change = int64(initial) - w.initial
	w.initial = int64(initial)
	return change
}

// ReceiveWindow is the number of bytes that the peer may send. Bytes that were
// consumed are returned to the peer in larger steps, so that WINDOW_UPDATE
// frames are rare.
type ReceiveWindow struct {
	available int // bytes that the peer may send
	consumed  int // bytes that were consumed and not announced to the peer
}

// NewReceiveWindow returns a window of a size.
func NewReceiveWindow(size int) ReceiveWindow { return ReceiveWindow{available: size} }

// Receive counts the payload of a DATA frame. It reports false, and counts
// nothing, when the peer sent more than it may.
func (w *ReceiveWindow) Receive(n int) bool {
	if n > w.available {
		return false
	}
	w.available -= n
	return true
}

// Available is how many bytes the peer may send now.
func (w *ReceiveWindow) Available() int { return w.available }

// Consume marks received bytes as no longer held.
func (w *ReceiveWindow) Consume(n int) { w.consumed += n }

// Update returns the increment for a WINDOW_UPDATE frame, once at least
// threshold bytes were consumed, and 0 before. The caller has to send a frame
// with it.
func (w *ReceiveWindow) Update(threshold int) (increment int) {
	if w.consumed < max(threshold, 1) {
		return 0
	}
	increment = w.consumed
	w.available += increment
	w.consumed = 0
	return increment
}
