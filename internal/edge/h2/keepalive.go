package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// keepalive closes idle connections and those of clients that are gone. One
// timer serves both: when it fires, checkAlive finds what is due and sets it
// again. Times are since the session began. The session's mu guards it.
type keepalive struct {
	timer     *time.Timer
	wakeAt    time.Duration // when the timer fires
	lastFrame time.Duration // when the last frame came
	pingSent  time.Duration // when a PING was sent that is not acknowledged; 0 for none
	idleSince time.Duration
}

// now is the time since the session began. It is never 0.
func (c *session) now() time.Duration { return time.Since(c.began) + 1 }

// startKeepalive is called with mu held, as are the functions below.
func (c *session) startKeepalive() {
	c.keepalive.wakeAt = min(c.cfg.PingAfter, c.cfg.IdleTimeout)
	c.keepalive.timer = time.AfterFunc(c.keepalive.wakeAt, c.checkAlive)
}

func (c *session) stopKeepalive() { c.keepalive.timer.Stop() }

// startIdle starts the idle timeout. The timer is only set when it would fire
// too late: setting it for each request would cost more than a wake-up for
// nothing.
func (c *session) startIdle() {
	k := &c.keepalive
	k.idleSince = c.now()
	if due := k.idleSince + c.cfg.IdleTimeout; due < k.wakeAt {
		k.wakeAt = due
		k.timer.Reset(c.cfg.IdleTimeout)
	}
}

// checkAlive is called by the timer. It closes a connection that has been idle
// for too long, sends PING to a client from which no frame came for a while,
// and closes its connection when none comes after that either.
func (c *session) checkAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	k, now := &c.keepalive, c.now()
	if k.pingSent > 0 && k.lastFrame > k.pingSent {
		k.pingSent = 0 // any frame shows that the client is there
	}
	next := now + c.cfg.IdleTimeout
	if len(c.streams.open) == 0 && c.requests.active == 0 {
		if next = k.idleSince + c.cfg.IdleTimeout; next <= now {
			c.goAway(ReasonEnded, http2.ErrCodeNo, c.streams.last)
			return
		}
	}
	switch {
	case k.pingSent > 0 && now >= k.pingSent+c.cfg.PingTimeout:
		c.abort(errPingTimeout)
		return
	case k.pingSent > 0:
		next = min(next, k.pingSent+c.cfg.PingTimeout)
	case now >= k.lastFrame+c.cfg.PingAfter:
		k.pingSent = now
		c.writer.Ping([8]byte{})
		c.writer.FlushAsync(nil)
		next = min(next, now+c.cfg.PingTimeout)
	default:
		next = min(next, k.lastFrame+c.cfg.PingAfter)
	}
	k.wakeAt = next
	k.timer.Reset(next - now)
}
