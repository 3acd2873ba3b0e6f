package listener

import (
	"context"
	"time"
)

// queueGrace is how long Drain still takes connections from the accept queue of
// the kernel. Closing the socket with connections in its queue resets them.
const queueGrace = 50 * time.Millisecond

// DrainReport counts how the connections ended.
type DrainReport struct {
	// Closed were closed by their owners, Forced when the time was over.
	Closed, Forced int
}

// Drain stops accepting and waits until all connections are closed. When ctx is
// done before, it closes the rest. In both cases no connection is left
// afterwards.
//
// notify is called once for each open connection, and for each that Accept
// still returns, so that its owner can end it. It may be nil, and must not
// block. A hijacked connection counts until it is closed, too.
//
// Accept has to be called as before until it returns net.ErrClosed.
func (l *Listener) Drain(ctx context.Context, notify func(*Conn)) DrainReport {
	l.live.startDrain(notify)
	if !l.stopping.Swap(true) {
		if l.looped != nil {
			time.AfterFunc(queueGrace, l.looped.stop)
		} else {
			_ = l.inner.SetDeadline(time.Now().Add(queueGrace))
		}
	}
	for _, c := range l.live.list(wasHandedOut) {
		c.notify(notify)
	}
	// First wait for the end of the accept loop, then for all connections.
	select {
	case <-l.stopped:
	case <-ctx.Done():
	}
	_ = l.Close()
	select {
	case <-l.live.whenEmpty():
	case <-ctx.Done():
	}
	forced := 0
	for _, c := range l.live.list(anyConn) {
		if c.Close() == nil {
			forced++
		}
	}
	return DrainReport{Closed: l.live.ended() - forced, Forced: forced}
}
