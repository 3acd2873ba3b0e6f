package edge

import (
	"net/netip"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/floodtracker"
)

// banLogInterval is the least time between two log lines about bans: an attack
// must not fill the log.
const banLogInterval = 10 * time.Second

// banLog limits the rate of log lines about bans.
type banLog struct {
	mu      sync.Mutex
	next    time.Time // when the next line may be written
	skipped int       // lines since the last one
}

// due reports whether a line may be written, and how many were skipped since
// the one before.
func (l *banLog) due(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return 0, false
	}
	skipped = l.skipped
	l.next, l.skipped = now.Add(banLogInterval), 0
	return skipped, true
}

// newFloodTracker makes the flood tracker of an entry point, which counts and
// logs its bans.
func (p *point) newFloodTracker() *floodtracker.Tracker {
	var lines banLog
	bans := p.server.options.Metrics.bans.WithLabelValues(p.Name)
	return floodtracker.New(floodtracker.Config{MaxBan: p.MaxBan, OnBan: func(client netip.Prefix, length time.Duration) {
		bans.Inc()
		p.server.limits.bans.add(p.Name, client, length)
		if skipped, ok := lines.due(time.Now()); ok {
			p.server.options.Log.Warn("banned client for repeated floods",
				"entryPoint", p.Name, "client", client, "for", length.String(), "othersSinceLastLine", skipped)
		}
	}})
}

// banned reports whether the connections of a client are refused. Those of
// trusted proxies never are, because they carry the requests of many clients.
func (p *point) banned(client netip.Addr) bool {
	return p.floods.Reputation(floodtracker.ClientOf(client), time.Now()) == floodtracker.Banned && !p.trust.Trusts(client)
}
