package edge

import (
	"net/netip"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/offender"
)

// holdLogPause is the least time between two lines of the log about clients that
// are held off: an attack must not fill it.
const holdLogPause = 10 * time.Second

// holdLog writes such lines.
type holdLog struct {
	mu      sync.Mutex
	next    time.Time // when there may be a line again
	skipped int
}

// due reports whether a line may be written, and how many were not since the
// one before.
func (l *holdLog) due(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return 0, false
	}
	skipped = l.skipped
	l.next, l.skipped = now.Add(holdLogPause), 0
	return skipped, true
}

// newOffenders makes the register of the clients that flood an entry point.
func (p *point) newOffenders() *offender.Register {
	var lines holdLog
	holds := p.server.options.Metrics.holds.WithLabelValues(p.Name)
	return offender.New(offender.Config{MostHold: p.MaxHold, Held: func(client netip.Prefix, hold time.Duration) {
		holds.Inc()
		if skipped, ok := lines.due(time.Now()); ok {
			p.server.options.Log.Warn("a client that floods again and again is held off",
				"entryPoint", p.Name, "client", client, "for", hold.String(), "othersSinceLastLine", skipped)
		}
	}})
}

// held reports whether a client may not connect. Those who speak for many may.
func (p *point) held(client netip.Addr) bool {
	return p.offenders.Standing(offender.Of(client), time.Now()) == offender.Held && !p.trust.Trusts(client)
}
