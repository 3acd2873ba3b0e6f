package floodtracker

import "time"

const (
	// distributedClients is how many unknown clients have to flood within
	// distributedSpan to make it a distributed flood.
	distributedClients = 10
	distributedSpan    = 2 * time.Second
	// distributedTime is how long all unknown clients are suspects after that.
	distributedTime = 30 * time.Second
)

// distributedFlood detects that many clients flood, each of them once. Tracking
// them one by one is of no use then: the next client is unknown again.
type distributedFlood struct {
	spanStart time.Time // the beginning of the span that is being counted
	clients   int       // unknown clients that flooded in the span
	until     time.Time // when unknown clients are no longer suspects
}

// add counts a flood of a client that was unknown before it.
func (d *distributedFlood) add(now time.Time) {
	if now.Sub(d.spanStart) > distributedSpan {
		d.spanStart, d.clients = now, 0
	}
	if d.clients++; d.clients >= distributedClients {
		d.until = now.Add(distributedTime)
	}
}

// active reports whether unknown clients are suspects.
func (d *distributedFlood) active(now time.Time) bool { return now.Before(d.until) }
