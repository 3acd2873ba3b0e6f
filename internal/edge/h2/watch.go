package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// watcher is the part of a session that looks at the clock. One timer serves all
// that is waited for: it looks what is due, and when to look again. Times are
// since the session began.
type watcher struct {
	timer     *time.Timer
	wakeAt    time.Duration // when the timer fires
	heard     time.Duration // when a frame came last
	asked     time.Duration // when the client was asked whether it is there; 0 is not
	idleSince time.Duration
}

func (c *session) now() time.Duration { return time.Since(c.began) + 1 }

// startWatch is called with mu held, as is what follows.
func (c *session) startWatch() {
	c.wakeAt = min(c.cfg.PingAfter, c.cfg.IdleTimeout)
	c.timer = time.AfterFunc(c.wakeAt, c.watch)
}

func (c *session) stopWatch() { c.timer.Stop() }

// idle notes that nothing runs.
func (c *session) idle() {
	c.idleSince = c.now()
	if due := c.idleSince + c.cfg.IdleTimeout; due < c.wakeAt {
		c.wakeAt = due
		c.timer.Reset(c.cfg.IdleTimeout)
	}
}

// watch is the timer's. It ends a connection on which nothing runs, asks a
// client that is silent whether it is there, and ends its connection if it does
// not say so.
func (c *session) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	now := c.now()
	if c.asked > 0 && c.heard > c.asked {
		c.asked = 0
	}
	next := now + c.cfg.IdleTimeout
	if len(c.streams) == 0 && c.active == 0 {
		if next = c.idleSince + c.cfg.IdleTimeout; next <= now {
			c.finish(ReasonEnded, http2.ErrCodeNo, c.last)
			return
		}
	}
	switch {
	case c.asked > 0 && now >= c.asked+c.cfg.PingTimeout:
		c.lose(errSilent)
		return
	case c.asked > 0:
		next = min(next, c.asked+c.cfg.PingTimeout)
	case now >= c.heard+c.cfg.PingAfter:
		c.asked = now
		c.reserve(frameHeaderSize + 8)
		c.out = appendPing(c.out, 0, [8]byte{})
		c.kick()
		next = min(next, now+c.cfg.PingTimeout)
	default:
		next = min(next, c.heard+c.cfg.PingAfter)
	}
	c.wakeAt = next
	c.timer.Reset(next - now)
}
