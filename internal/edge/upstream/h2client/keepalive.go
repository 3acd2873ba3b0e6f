package h2client

import "time"

const (
	// pingInterval is the least time between two PINGs on a connection without
	// other traffic. gRPC servers take more than one in five minutes for an
	// attack.
	pingInterval = 5*time.Minute + 10*time.Second
	// suspectShare is the divisor of PingTimeout that gives how long a
	// cancelled stream has to have waited before the endpoint is suspected to
	// be gone.
	suspectShare = 8
)

// keepalive finds out that an endpoint is gone, and closes idle connections.
// One timer serves both. Times are in nanoseconds since the connection began,
// and never 0.
//
// The connection's mu guards it.
type keepalive struct {
	began     time.Time
	lastFrame int64
	// suspected is set if a stream was cancelled and no frame came since it
	// began. Until one comes, no other stream is opened.
	suspected bool
	// traffic is set if HEADERS or DATA came since the last PING.
	traffic bool

	idleSince int64
	pingAt    int64 // when the last PING was sent; 0 is never
	timer     *time.Timer
}

func (k *keepalive) now() int64 { return int64(time.Since(k.began)) + 1 }

// received notes frames that have come. Any frame shows that the endpoint is there.
func (k *keepalive) received() {
	k.lastFrame = k.now()
	k.suspected = false
}

// acknowledged reports that no PING is outstanding. While one is, the timer
// belongs to its timeout.
func (k *keepalive) acknowledged() bool { return k.pingAt <= k.lastFrame }

// nextPing is the earliest time of another PING.
func (k *keepalive) nextPing() int64 {
	if k.pingAt == 0 || k.traffic {
		return 0
	}
	return k.pingAt + int64(pingInterval)
}

func (k *keepalive) wakeAfter(wait int64) { k.timer.Reset(max(time.Duration(wait), time.Millisecond)) }

// checkAlive is called by the timer. It closes a connection without streams,
// sends PING to a silent endpoint, and closes its connection when no frame
// comes after that.
func (c *Conn) checkAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.keepalive
	now, last := k.now(), k.lastFrame
	switch pingDue := max(last+int64(c.cfg.PingAfter), k.nextPing()); {
	case c.over:
	case c.streams.live == 0 && (c.draining || now-k.idleSince >= int64(c.cfg.IdleTimeout)):
		c.closeWith(errClosed)
	case k.pingAt > last && now-k.pingAt >= int64(c.cfg.PingTimeout):
		c.closeWith(ErrPingTimeout)
	case k.pingAt > last:
		k.wakeAfter(k.pingAt + int64(c.cfg.PingTimeout) - now)
	case c.streams.live == 0:
		k.wakeAfter(k.idleSince + int64(c.cfg.IdleTimeout) - now)
	case now >= pingDue:
		c.ping(now)
	default:
		k.wakeAfter(pingDue - now)
	}
}

// ping sends a PING and starts its timeout. It is called with mu held.
func (c *Conn) ping(now int64) {
	c.keepalive.pingAt = now
	c.keepalive.traffic = false
	if c.mayAddControl() {
		c.writer.Ping([8]byte{})
		c.writer.FlushAsync(nil)
	}
	c.keepalive.wakeAfter(int64(c.cfg.PingTimeout))
}

// suspect is called with mu held, for a stream that is cancelled although no
// frame came since it began: the endpoint may be gone. A stream that is
// cancelled at once proves nothing, and an endpoint that may not be pinged yet
// is not suspected.
func (c *Conn) suspect(s *Stream) {
	k := &c.keepalive
	now, last := k.now(), k.lastFrame
	if last >= s.sentAt || now-s.sentAt < int64(c.cfg.PingTimeout)/suspectShare || k.acknowledged() && now < k.nextPing() {
		return
	}
	k.suspected = true
	if k.acknowledged() {
		c.ping(now)
	}
}
