package proxy

import (
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/upstream"
)

// goneCheckPeriod is how often a client is looked for while its answer is waited
// for. One that has left keeps a backend busy for no longer.
const goneCheckPeriod = time.Second

// goneDetector is a connection that knows whether its client has left.
type goneDetector interface{ Gone() bool }

// goneDetectorOf finds it below TLS too. It is nil for streams, which are told.
func goneDetectorOf(conn net.Conn) goneDetector {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	known, _ := conn.(goneDetector)
	return known
}

// bound sets the times of an attempt. The wait for the head of the answer is cut
// into pieces, between which the client is looked for.
func (c *client) bound(b *binding, conn *upstream.Conn) {
	c.patience = conn.SetTimeouts(b.times.header, b.times.idle)
	if c.presence != nil && c.patience > goneCheckPeriod {
		conn.Reader.SetPollInterval(goneCheckPeriod)
	}
	c.waited, c.departed = 0, false
}

// waitsOn is asked when a piece of the wait is over: it reports whether there is
// more, which is not so when the client has left.
func (c *client) waitsOn(conn *upstream.Conn) bool {
	if c.presence == nil || c.patience <= goneCheckPeriod {
		return false
	}
	if c.waited += conn.Reader.LastWait(); c.waited >= c.patience {
		return false
	}
	conn.Reader.SetPollInterval(min(goneCheckPeriod, c.patience-c.waited))
	c.departed = c.presence.Gone()
	return !c.departed
}
