package listener

import (
	"context"
	"time"
)

// queueGrace is how long Drain goes on taking connections that the kernel has
// already accepted. Closing the socket with these in its queue resets them.
const queueGrace = 50 * time.Millisecond

// DrainReport says how the connections ended.
type DrainReport struct {
	// Closed ended by themselves, Forced were closed when the time was over.
	Closed, Forced int
}

// Drain stops accepting and waits until all connections are closed. When ctx
// is done before, it closes those that are left. In both cases nothing is left
// afterwards.
//
// notify is called once for each open connection, and for each that Accept
// still gives out, to tell its owner to come to an end. It may be nil, and must
// not block. It does not matter whether a connection was hijacked: it counts
// until it is closed.
//
// Accept has to be called as before until it gives net.ErrClosed.
func (l *Listener) Drain(ctx context.Context, notify func(*Conn)) DrainReport {
	l.live.startDrain(notify)
	if !l.stopping.Swap(true) {
		_ = l.inner.SetDeadline(time.Now().Add(queueGrace))
	}
	for _, c := range l.live.list(wasHandedOut) {
		c.notify(notify)
	}
	// First those that are still to come, then all.
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
