package offender

import "time"

const (
	// crowdSize is how many clients that nothing was known of have to flood within
	// a crowdSpan for it to be an attack by many.
	crowdSize = 10
	crowdSpan = 2 * time.Second
	// crowdTime is how long everybody new is a suspect after that.
	crowdTime = 30 * time.Second
)

// crowd finds out that many clients flood, each once. To know them one by one
// is of no use then: the next one is not known.
type crowd struct {
	began time.Time // of the span that is counted
	count int
	until time.Time
}

// add counts a client that flooded and that nothing was known of.
func (c *crowd) add(now time.Time) {
	if now.Sub(c.began) > crowdSpan {
		c.began, c.count = now, 0
	}
	if c.count++; c.count >= crowdSize {
		c.until = now.Add(crowdTime)
	}
}

// here reports whether such an attack goes on.
func (c *crowd) here(now time.Time) bool { return now.Before(c.until) }
