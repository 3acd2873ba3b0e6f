package upstream

import (
	"sync"
	"time"
)

// sweeper closes connections that have been idle for too long. One serves the
// whole Set, and its timer runs only while a connection is idle.
type sweeper struct {
	set *Set

	mu    sync.Mutex
	pools []*Endpoint // those that had an idle connection at the last sweep
	timer *time.Timer // nil before the first use
	armed bool        // the timer or a sweep runs
}

// watch adds an endpoint that has its first idle connection.
func (w *sweeper) watch(e *Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pools = append(w.pools, e)
	if !w.armed {
		w.arm(w.set.cfg.IdleTimeout)
	}
}

// arm sets the timer. It is called with mu held.
func (w *sweeper) arm(wait time.Duration) {
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, func() { w.set.run(w.sweep) })
		return
	}
	w.timer.Reset(wait)
}

func (w *sweeper) sweep() {
	w.mu.Lock()
	pools := w.pools
	w.pools = nil
	w.mu.Unlock()

	timeout := int64(w.set.cfg.IdleTimeout)
	now := w.set.now()
	first := now
	kept := pools[:0]
	for _, e := range pools {
		oldest, closed := e.expire(now - timeout)
		w.set.stats.expired.Add(uint64(closed))
		if oldest != 0 {
			kept = append(kept, e)
			first = min(first, oldest)
		}
	}
	clear(pools[len(kept):])

	w.mu.Lock()
	defer w.mu.Unlock()
	w.pools = append(kept, w.pools...)
	w.armed = false
	if len(w.pools) > 0 {
		// Waiting a little longer lets one sweep close the connections of many
		// pools.
		w.arm(time.Duration(max(first+timeout-now, timeout/8)))
	}
}

func (w *sweeper) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.pools = nil
}
